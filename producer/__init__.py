"""Ships the log files of one host: files, blocks, window, PubAck, checkpoint."""
