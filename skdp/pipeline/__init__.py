"""What a whole pipeline costs, and how one budget is split among its steps."""

from skdp.pipeline._budget import set_budget
from skdp.pipeline._report import PipelineReport, privacy_report
from skdp.pipeline._steps import StepReport

__all__ = ["PipelineReport", "StepReport", "privacy_report", "set_budget"]
