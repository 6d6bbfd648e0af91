"""Tables: rows at their place of storage, and public facts of them. Private."""
