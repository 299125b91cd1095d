"""placeholder"""

FIGURES_MIME = "application/vnd.workbook.figures+json"
