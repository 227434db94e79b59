"""What is redacted on a host: rules in a file, a scanner for named values, cards, mail addresses, keys over lines."""
