"""What an attacker can know: bounds before a release, and audits of what was built."""

from skdp.audit._attribute import AttributeInference
from skdp.audit._audit_display import AuditDisplay
from skdp.audit._audit_estimator import audit_estimator
from skdp.audit._canary_pairs import CanaryPairs
from skdp.audit._guesses import Guesses
from skdp.audit._inference import MembershipInference, membership_inference
from skdp.audit._inference_display import MembershipInferenceDisplay
from skdp.audit._membership_risk import MembershipRisk, membership_risk
from skdp.audit._one_run import audit_one_run, one_run_power
from skdp.audit._one_run_report import OneRunAudit, OneRunBounds
from skdp.audit._result import AuditResult, Claim, EpsilonBound, Finding
from skdp.audit._risk_display import MembershipRiskDisplay

__all__ = [
    "AttributeInference",
    "AuditDisplay",
    "AuditResult",
    "CanaryPairs",
    "Claim",
    "EpsilonBound",
    "Finding",
    "Guesses",
    "MembershipInference",
    "MembershipInferenceDisplay",
    "MembershipRisk",
    "MembershipRiskDisplay",
    "OneRunAudit",
    "OneRunBounds",
    "audit_estimator",
    "audit_one_run",
    "membership_inference",
    "membership_risk",
    "one_run_power",
]
