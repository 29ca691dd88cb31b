"""Self-purified replay (SPR): learn features without labels, keep what is central among its label."""
