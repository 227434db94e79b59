"""The archive and the streams of all hosts as one log: `tail` and `replay`. Read only."""
