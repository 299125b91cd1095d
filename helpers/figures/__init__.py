"""Plotly figures: tidy data in, figure out, nothing else. Colours are safe for colour-blind readers (Okabe-Ito)."""
