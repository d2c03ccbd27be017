"""Tables of events on disks and object stores, written and read without Spark.

place           a path or a URI, and the file system behind it
layout          the folder and the name of a file
captured_file   what is known of a file once it is written
file_writers    Parquet and Avro files, written a portion at a time
capture_writer  record batches into files of bounded size
manifests       batches of Parquet and Avro files that count once
delta_table     batches of files as transactions of a Delta table
"""
