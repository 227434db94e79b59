"""The fleet as one log: what is stored and what comes, of all hosts, for people. Changes nothing."""
