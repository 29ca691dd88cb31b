"""The audit of a finished run: a page to judge doubtful labels in, and a file of corrected labels."""
