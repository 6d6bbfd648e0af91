"""What a whole pipeline costs, and how one budget is split among its steps."""

from skdp.pipeline._budget import set_budget
from skdp.pipeline._report import PipelineReport, StepReport, privacy_report

__all__ = ["PipelineReport", "StepReport", "privacy_report", "set_budget"]
