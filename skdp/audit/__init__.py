"""What an attacker can know: bounds before a release, and audits of what was built."""

from skdp.audit._estimator import audit_estimator
from skdp.audit._inference import (
    AttributeInference,
    MembershipInference,
    membership_inference,
)
from skdp.audit._one_run import (
    CanaryPairs,
    Guesses,
    OneRunAudit,
    OneRunBounds,
    audit_one_run,
    one_run_power,
)
from skdp.audit._result import AuditResult, Claim, EpsilonBound, Finding
from skdp.audit._risk import MembershipRisk, membership_risk

__all__ = [
    "AttributeInference",
    "AuditResult",
    "CanaryPairs",
    "Claim",
    "EpsilonBound",
    "Finding",
    "Guesses",
    "MembershipInference",
    "MembershipRisk",
    "OneRunAudit",
    "OneRunBounds",
    "audit_estimator",
    "audit_one_run",
    "membership_inference",
    "membership_risk",
    "one_run_power",
]
