"""What people look at after an evaluation: the report, its viewer of trajectories, and the sheet of the audit."""

from tasks.evaluation.report.page import write_report as write_report
