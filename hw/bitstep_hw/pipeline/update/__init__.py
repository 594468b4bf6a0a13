"""The scalar recursion: from a dot product to the update of a row."""
