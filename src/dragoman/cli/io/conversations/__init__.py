"""The conversations of the command line: started, kept and found."""
