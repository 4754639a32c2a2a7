package verify

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"urr.guru/pkg/fairdraw"
)

// printReport prints the report of a check that found no faults. The last line begins with ok or,
// if knownBeacon is false, with NOT PROVEN: the beacon is neither public nor trusted by the user.
func printReport(out io.Writer, r *fairdraw.VerificationReport, knownBeacon bool) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	c := &r.Commitment
	if c.Algorithm == fairdraw.AlgorithmShuffle {
		line("event", "%s: a shuffle", c.EventID)
	} else {
		line("event", "%s: a draw of %d", c.EventID, c.Winners)
	}
	line("cutoff", "%s", formatTime(c.Cutoff()))
	line("commitment", "%s", r.CommitmentHash)
	line("beacon", "%s", beaconOf(c))
	if s := r.Statement; s != nil {
		line("root", "%s: %d entries, %d excluded", s.Root, s.Count, s.ExcludedCount)
		line("root's time", "%s", rootTime(r))
		if s.MissedRounds > 0 {
			line("missed", "%d rounds, since the root came too late for them", s.MissedRounds)
		}
	}
	if r.SeedWithheld {
		line("seed", "not revealed in time: zeros and a later round decided")
	}
	for _, x := range r.Receipts {
		line("receipt", "%s", receiptLine(&x))
	}
	if knownBeacon {
		fmt.Fprintf(&b, "ok: %s\n", summaryText(r))
	} else {
		fmt.Fprintf(&b, "NOT PROVEN: %s, if you trust the owner of the beacon: --trust-chain %s\n", summaryText(r), c.Beacon.ChainHash)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func beaconOf(c *fairdraw.Commitment) string {
	switch {
	case c.Beacon == nil:
		return "none: the operator can compute the result of any entries, so the draw trusts it"
	case c.Beacon.Network() != "":
		return fmt.Sprintf("%s, round %d at %s", c.Beacon.Network(), c.Round, formatTime(c.Beacon.TimeOf(c.Round)))
	default:
		return fmt.Sprintf("chain %s, round %d at %s; not a network that this program knows: whoever has its key knows every value",
			c.Beacon.ChainHash, c.Round, formatTime(c.Beacon.TimeOf(c.Round)))
	}
}

func rootTime(r *fairdraw.VerificationReport) string {
	claimed := formatTime(time.UnixMilli(r.Statement.At))
	if r.RootSeenAt.IsZero() {
		return claimed + ", claimed by the operator"
	}
	return fmt.Sprintf("%s, proven before the round by the copy of %s", claimed, formatTime(r.RootSeenAt))
}

func receiptLine(x *fairdraw.ReceiptReport) string {
	outcome := map[fairdraw.ReceiptOutcome]string{
		fairdraw.OutcomePending:  "the root is not public yet",
		fairdraw.OutcomeEntered:  "is among the entries",
		fairdraw.OutcomeWon:      fmt.Sprintf("won, rank %d", x.Rank),
		fairdraw.OutcomeLost:     fmt.Sprintf("did not win, rank %d", x.Rank),
		fairdraw.OutcomePlaced:   fmt.Sprintf("has position %d", x.Rank),
		fairdraw.OutcomeExcluded: "was excluded by the operator: " + x.Reason,
		fairdraw.OutcomeLate:     "was stamped after the cutoff",
	}[x.Outcome]
	return x.RequestID.String() + " " + outcome
}

func summaryText(r *fairdraw.VerificationReport) string {
	switch {
	case r.Complete && r.Commitment.Algorithm == fairdraw.AlgorithmShuffle:
		return "the order of all entries is genuine"
	case r.Complete:
		return fmt.Sprintf("all %d winners are genuine", r.Winners)
	case r.Statement == nil:
		return "the terms are genuine; the root is not public yet"
	default:
		return "the terms and the entries are genuine; there is no result yet"
	}
}

// printable replaces control characters: with them, a forged document could fake other output on a
// terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
