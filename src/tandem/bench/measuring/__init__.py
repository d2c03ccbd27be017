"""What every benchmark needs: the machine, the brokers, their processes, the pictures."""
