"""Collect answer lengths, train predictors on them, and measure how well they rank."""
