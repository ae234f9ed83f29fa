"""The study: real data, through features and networks, to stages and reports."""
