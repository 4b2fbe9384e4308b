"""When running work of borrowing classes goes, because protected tokens come too slowly."""

FEWEST_TOKENS = 20  # seen before anything is said: a 95th percentile of fewer says nothing
LATE_SHARE = 0.05  # of the tokens, that may miss their target


class Relief:
    """Asks for one victim at a time, and measures anew after each: never more than needed.

    Tokens that were made beside a victim say nothing of how things are without it, so a window
    of past latencies would go on asking until nobody is left.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._late = 0
        self.due = False

    def note(self, tokens: int, *, late: bool) -> None:
        """Count tokens of protected requests that came after a gap; late: over their target."""
        self._seen += tokens
        self._late += tokens * late
        if self._seen >= FEWEST_TOKENS:
            self.due = self._late > LATE_SHARE * self._seen
            self._seen = self._late = 0

    def start_anew(self) -> None:
        """Forget what was seen: somebody was taken off, or there is nothing to relieve."""
        self._seen = self._late = 0
        self.due = False
