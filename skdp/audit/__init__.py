"""What an attacker can know: bounds before a release, and audits of what was built."""

from skdp.audit._audit_display import AuditDisplay
from skdp.audit._audit_estimator import audit_estimator
from skdp.audit._membership_risk import MembershipRisk, membership_risk
from skdp.audit._result import AuditResult, Claim, EpsilonBound, Finding
from skdp.audit._risk_display import MembershipRiskDisplay

__all__ = [
    "AuditDisplay",
    "AuditResult",
    "Claim",
    "EpsilonBound",
    "Finding",
    "MembershipRisk",
    "MembershipRiskDisplay",
    "audit_estimator",
    "membership_risk",
]
