"""Tables: data sets whose rows are read in pieces, one file a kind of file."""
