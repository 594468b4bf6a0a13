"""Text of columns, and the column of a label."""
