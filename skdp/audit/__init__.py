"""What an attacker can know: bounds before a release, and audits of what was built."""

from skdp.audit._membership_risk import MembershipRisk, membership_risk
from skdp.audit._risk_display import MembershipRiskDisplay

__all__ = ["MembershipRisk", "MembershipRiskDisplay", "membership_risk"]
