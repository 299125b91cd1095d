"""Device libraries; only their import is served."""
