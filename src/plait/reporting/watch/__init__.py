"""`plait watch`: a page on this machine that draws the curves of runs while they train."""
