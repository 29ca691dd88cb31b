"""Reports: summaries, tables, figures and pages of runs beside published results; transition matrices."""
