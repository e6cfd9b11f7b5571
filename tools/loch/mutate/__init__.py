"""Random single edits of the code, and by which tests each is seen."""
