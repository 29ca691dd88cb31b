"""The report of finished runs as one HTML file, which opens offline. jinja2 and matplotlib are optional."""
