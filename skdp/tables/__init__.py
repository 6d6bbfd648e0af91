"""Tables: rows where they are, and public facts of them. Private."""
