"""The foreign stacks: how to find them, and the programs that drive them."""
