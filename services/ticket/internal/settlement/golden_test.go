package settlement_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/purchase"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// sequence is a list of steps. A step is a time after noon, what happens, to which payment, and
// anything else about it (see sale.do). All kinds of purchases take the steps, or only one. The
// next step may be earlier, if this one is refused or only asks.
type sequence struct {
	name  string
	only  purchase.Type
	steps string
}

var sequences = []sequence{ //nolint:gochecknoglobals // a constant
	// Pages, claims and charges.
	{"in time", "", "0s payable; 0s open p1; 2m payable; 12m charge p1; 13m settle p1; 14m payable; 14m begin p2; 14m expire"},
	{"each step twice", "", "0s open p1; 1m open p1; 12m charge p1; 12m charge p1; 13m charge p1; 21m extend p1; 21m extend p1; 22m settle p1; 23m settle p1"},
	{"without a page", "", "0s begin p1; 1m begin p1; 14m begin p1; 14m open p1; 14m settle p1"},
	{"a page, then a claim without a time", "", "4m open p1; 8m begin p1; 9m begin p1; 10m open p1; 11m abort p1"},
	{"charged again while its end stays", "", "0s charge p1; 1m charge p1; 5m charge p1; 6m charge p1; 7m open p1"},
	{"a page, then a charge while its end stays", "", "0s open p1; 1m charge p1; 2m charge p1; 3m cancel"},
	{"pages that are given up", "", "0s open p1; 1m abort p1; 1m open p2; 2m abort p2; 2m open p3; 3m abort p3; 3m open p4; 15m open p4; 3m charge p4"},
	{"pages that are declined", "", "0s open p1; 1m decline p1; 1m open p2; 2m decline p2; 2m open p3; 3m decline p3; 3m open p4; 4m decline p4; 4m open p5; " +
		"5m decline p5; 5m open p6; 6m decline p6; 6m open p7; 6m begin p7"},
	{"pages that are not opened", "", "0s open p1; 1m unopened p1; 1m unopened p1; 2m open p2; 3m unopened p2; 4m open p3; 5m charge p3; 6m unopened p3; 7m open p4; 8m abort p4"},
	{"pages of rejected payments", "", "0s refund p1; 0s open p1; 1m settle p1; 1m open p2; 2m abort p2; 2m open p3; 3m abort p3; 3m open p4"},
	{"pages of other holds", purchase.Reservation, "0s other-pages; 0s open p1; 1m abort p1; 1m open p2; 2m decline p2; 2m open p2; 3m abort p2; 3m open p3"},
	{"another payment beside a page", "", "0s open p1; 1m payable; 1m open p2; 1m begin p2; 1m charge p2; 13m extend p2; 13m abort p2; 13m decline p2; 15m begin p2; 13m settle p2; 13m settle p1"},
	{"another payment beside a charge", "", "0s charge p1; 1m open p2; 1m begin p2; 1m charge p2; 13m extend p2; 13m abort p2; 13m unopened p2; 14m settle p1"},

	// Time.
	{"begun late", "", "15m1s begin p1; 15m begin p1; 15m open p1; 15m charge p1; 15m payable; 14m59s begin p1; 24m58s begin p1; 24m59s begin p1"},
	{"charged up to the longest extension", "", "14m charge p1; 23m charge p1; 32m charge p1; 41m charge p1; 42m charge p1; 42m1s charge p1; 42m1s extend p1; 45m charge p1; 44m settle p1"},
	{"pages up to the longest extension", "", "14m open p1; 25m decline p1; 27m open p2; 34m decline p2; 34m open p3; 38m charge p3; 41m abort p3; 41m open p4; 41m payable"},
	{"extended up to the longest extension", "", "0s open p1; 11m extend p1; 12m extend p1; 12m extend p2; 14m extend p1; 16m extend p1; 18m charge p1; 27m charge p1; 36m charge p1; " +
		"42m extend p1; 43m extend p1; 44m extend p1; 45m extend p1; 45m expire; 45m extend p1"},
	{"begun again after it was given up", "", "0s open p1; 1m abort p1; 2m open p1; 3m decline p1; 3m charge p1; 14m abort p1; 14m begin p1; 15m settle p1"},
	{"extended after the end", "", "0s open p1; 15m extend p1; 15m payable; 15m begin p2; 15m charge p1"},
	{"given up in time", "", "0s charge p1; 2m abort p2; 2m abort p1; 2m abort p1; 3m payable; 3m extend p1; 3m open p2; 13m abort p2; 14m begin p3; 16m abort p3; 18m59s payable; 19m payable"},
	{"given up before the end", "", "0s charge p1; 14m59s abort p1; 17m58s open p2; 17m59s charge p2; 17m59s decline p2; 20m59s expire"},
	{"given up at the end", "", "0s charge p1; 15m abort p1; 15m payable; 15m expire; 15m abort p1; 15m settle p1"},
	{"declined at the end", "", "0s open p1; 15m decline p1; 15m unopened p1; 15m expire"},
	{"given up when the retry ends", "", "14m charge p1; 23m charge p1; 32m charge p1; 34m59s decline p1; 34m59s begin p2; 35m decline p2; 35m settle p1; 35m settle p2"},
	{"given up without time for another", "", "14m charge p1; 23m charge p1; 32m charge p1; 36m unopened p1; 36m abort p1; 36m payable; 36m settle p1"},
	{"no payment", "", "0s settle -; 13m extend -; 14m abort -; 14m decline -; 0s open p1; 1m abort -; 1m settle -"},

	// The end of the time to pay.
	{"expired without a payment", "", "14m59s expire; 15m payable; 15m expire; 15m expire; 15m payable; 15m begin p1; 16m cancel"},
	{"expired beside a page", "", "0s open p1; 14m59s expire; 15m expire; 15m charge p1; 15m extend p1; 15m decline p1; 15m settle p1; 16m settle p1"},
	{"expired beside a charge", "", "0s charge p1; 15m expire; 15m charge p1; 16m abort p1; 16m settle p1; 16m payable; 17m settle p1"},
	{"two payments after the end", "", "0s begin p1; 1m abort p1; 1m begin p2; 15m expire; 16m settle p1; 16m settle p2; 17m settle p1; 17m settle p2; 17m payable"},
	{"late before the sweep", "", "0s open p1; 15m settle p1; 16m settle p1; 16m expire"},
	{"late and given up, before the sweep", "", "0s charge p1; 1m abort p1; 15m settle p1; 15m payable"},
	{"late beside a charge, before the sweep", "", "0s charge p1; 1m abort p1; 1m charge p2; 16m settle p1; 16m settle p2; 16m expire"},

	// Other payments.
	{"given up, then paid", "", "0s open p1; 1m abort p1; 2m settle p1; 3m settle p1; 3m abort p1; 3m extend p1; 3m expire"},
	{"given up, then paid beside a page", "", "0s charge p1; 1m abort p1; 1m open p2; 2m settle p1; 2m charge p2; 3m settle p2; 4m settle p2; 4m settle p1"},
	{"given up, then paid beside a charge", "", "0s charge p1; 1m abort p1; 1m charge p2; 2m settle p1; 3m settle p2; 4m settle p1"},
	{"rejected, then paid by another", "", "0s charge p1; 0s refund p1; 14m settle p1; 14m extend p1; 14m begin p2; 14m settle p1; 15m settle p2; 15m settle p1"},
	{"a page that is rejected", "", "0s open p1; 0s refund p1; 14m settle p1; 14m settle p1; 14m open p2; 14m settle p1; 15m payable"},
	{"rejected when the retry ends", "", "14m charge p1; 23m charge p1; 32m charge p1; 32m refund p1; 35m settle p1; 36m settle p1"},
	{"refunded and late", "", "0s charge p1; 0s refund p1; 15m settle p1; 15m settle p1; 15m payable"},
	{"refunded and late, after the sweep", "", "0s charge p1; 0s refund p1; 15m expire; 15m settle p1; 15m payable"},
	{"refunded after it has paid", "", "0s charge p1; 1m settle p1; 1m refund p1; 2m settle p1; 2m payable"},
	{"refunded after another has paid", "", "0s charge p1; 1m abort p1; 1m begin p2; 1m settle p2; 1m refund p1; 2m settle p1"},
	{"refunded, and the event has ended", "", "0s charge p1; 0s refund p1; 0s event ENDED; 1m settle p1; 2m settle p1"},
	{"never begun", "", "0s settle p1; 0s begin p1; 1m settle p2; 1m settle p1; 2m settle p2"},
	{"not as begun", "", "0s charge p1; 1m settle p1 cheap; 1m settle p1 dollars; 1m settle p1 thief; 2m abort p1; 2m settle p1 cheap; 2m settle p1 dollars; 2m settle p1 thief"},
	{"not as begun, after it has paid", "", "0s charge p1; 1m settle p1; 1m settle p1 cheap; 1m settle p1 thief"},
	{"not as begun, after the end", "", "0s charge p1; 15m settle p1 cheap; 15m expire; 15m settle p1 cheap; 15m settle p1 thief; 15m settle p2"},
	{"not as begun, after the user has cancelled", "", "0s open p1; 1m cancel; 1m settle p1 cheap; 1m settle p1 dollars; 1m settle p1 thief; 1m settle p2; 1m settle p1"},
	{"refundable as a whole only", "", "0s charge p1; 1m settle p1 whole"},
	{"free", "", "0s free; 0s charge p1; 1m abort p1; 1m charge p2; 1m settle p2; 2m settle p1"},
	{"another user", "", "0s payable w; 0s open p1 w; 0s open p1; 1m charge p1 w; 1m charge p1; 1m payable w; 1m settle p1; 1m payable w; 1m begin p2 w"},

	// Other ends.
	{"cancelled by the user", "", "0s cancel w; 0s cancel; 0s cancel; 0s payable; 0s begin p1; 15m expire"},
	{"cancelled beside a page", "", "0s open p1; 1m cancel; 1m charge p1; 1m decline p1; 1m extend p1; 2m settle p1; 3m settle p1; 3m payable; 3m cancel"},
	{"cancelled beside a charge", "", "0s open p1; 1m charge p1; 1m cancel; 2m abort p1; 2m cancel; 2m settle p1"},
	{"cancelled after the end", "", "0s charge p1; 15m cancel; 15m expire; 15m cancel"},
	{"cancelled after it was paid", "", "0s charge p1; 1m settle p1; 1m cancel"},
	{"blocked", "", "0s open p1; 1m block; 1m charge p1; 2m settle p1; 2m block"},
	{"blocked beside a charge", "", "0s charge p1; 1m block; 2m abort p1; 2m block; 15m block"},
	{"blocked after the end", "", "0s open p1; 15m block"},
	{"a blocked user pays", "", "0s blocked; 0s payable; 0s open p1; 0s settle p1"},
	{"a blocked user is charged", "", "0s open p1; 1m blocked; 1m charge p1; 1m extend p1; 1m payable; 2m settle p1"},
	{"a blocked user was charged", "", "0s charge p1; 1m blocked; 1m payable; 6m charge p1; 6m begin p2; 6m abort p1; 6m begin p1"},
	{"a blocked user of a cancelled event", "", "0s blocked; 0s event CANCELLED; 0s payable; 0s begin p1; 15m begin p1; 1m event OPEN; 1m begin p1; 15m begin p1"},
	{"an event is cancelled", "", "0s event CANCELLED; 0s payable; 0s open p1; 0s begin p1; 15m begin p1; 1m event PAUSED; 1m payable; 1m begin p1"},
	{"an event is cancelled beside a page", "", "0s open p1; 1m event CANCELLED; 1m charge p1; 1m payable; 13m extend p1; 14m settle p1"},
	{"an event is cancelled beside a charge", "", "0s charge p1; 1m event CANCELLED; 6m charge p1; 6m begin p2; 6m payable; 14m extend p1; 14m settle p1"},
	{"an event has ended", "", "0s begin p1; 1m abort p1; 1m event ENDED; 1m payable; 1m begin p1; 1m settle p1; 2m settle p1; 2m payable"},
	{"an event has ended beside a page", "", "0s open p1; 1m event ENDED; 1m charge p1; 1m settle p1; 2m settle p1"},
	{"an event has ended beside a charge", "", "0s charge p1; 1m event ENDED; 1m settle p1; 2m settle p1; 2m expire"},
	{"an event has ended, late", "", "0s charge p1; 1m event ENDED; 15m settle p1"},
	{"an event has ended after it was paid", "", "0s begin p1; 0s abort p1; 0s charge p2; 1m settle p2; 2m event ENDED; 2m event-ends; 2m settle p2; 2m settle p1"},
	{"an event ends it", "", "0s event ENDED; 0s event-ends; 0s event-ends; 0s payable; 0s cancel"},
	{"an event ends it beside a page", "", "0s open p1; 1m event ENDED; 1m event-ends; 1m settle p1"},
	{"an event ends it beside a charge", "", "0s charge p1; 1m event ENDED; 1m event-ends; 1m cancel; 1m settle p1"},
	{"an event ends it after the end", "", "0s charge p1; 15m event ENDED; 15m event-ends; 15m settle p1"},
	{"given back", "", "0s begin p1; 0s abort p1; 0s charge p2; 1m settle p2; 2m give-back; 2m payable; 3m give-back; 3m payable; 3m begin p3; 3m settle p2; 3m settle p1; 3m expire"},
	{"voided", purchase.Reservation, "0s begin p1; 0s abort p1; 0s charge p2; 1m settle p2; 2m void; 2m give-back; 2m settle p1; 2m payable"},
	{"given back, then voided", purchase.Reservation, "0s begin p1; 0s abort p1; 0s charge p2; 1m settle p2; 2m give-back; 2m void; 2m settle p1; 2m settle p2"},

	// What only transfers have.
	{"accepted by another after the end", purchase.Transfer, "0s open p1; 1m charge p1; 15m expire; 16m accept w; 16m payable; 16m open p2 w; 16m settle p1; 17m abort p1; " +
		"17m charge p2 w; 17m settle p1; 18m settle p2 u; 18m settle p2 w; 18m settle p2 w"},
	{"not paid by two", purchase.Transfer, "0s charge p1; 15m expire; 15m accept w; 15m charge p2 w; 30m abort p2; 30m payable w; 30m settle p2 w; 30m expire"},
	{"not paid by two, without time for another", purchase.Transfer, "15m expire; 15m accept w; 29m charge p1 w; 38m charge p1 w; 47m charge p1 w; 51m abort p1; 51m payable w"},
	{"not paid before the deadline", purchase.Transfer, "14m charge p1; 1h1m expire; 1h1m settle p1"},
	{"given up soon", purchase.Transfer, "4m59s cancel; 5m accept w; 6m cancel w; 6m cancel v; 6m cancel v"},
	{"given up late", purchase.Transfer, "4m open p1; 5m cancel; 5m accept w; 10m cancel w; 10m cancel w; 10m cancel v"},
	{"given up by the only user", purchase.Transfer, "0s only-for-u; 0s open p1; 1m cancel; 1m settle p1"},
	{"cancelled by the seller", purchase.Transfer, "0s open p1; 1m cancel v; 1m settle p1; 1m payable"},
	{"cancelled by the seller beside a charge", purchase.Transfer, "0s charge p1; 1m cancel v; 15m cancel v; 15m cancel v"},
	{"a ticket is used beside a page", purchase.Transfer, "0s open p1; 1m ticket-used; 1m payable; 1m charge p1; 1m event CANCELLED; 1m payable; 1m event OPEN; 1m settle p1"},
	{"an event closes beside a page", purchase.Transfer, "0s open p1; 1m event-closes; 1m payable; 1m charge p1; 1m settle p1; 0s settle p1"},
	{"an event closes beside a charge", purchase.Transfer, "0s charge p1; 1m event-closes; 1m payable; 6m charge p1; 6m settle p1"},
	{"an event closes after it was given up", purchase.Transfer, "0s charge p1; 1m abort p1; 1m event-closes; 1m settle p1; 1m payable"},

	// What only memberships have.
	{"after the present one", purchase.Membership, "0s own-past; 0s own-present; 0s charge p1; 1m settle p1"},
	{"with the next one", purchase.Membership, "0s own-present; 0s own-next; 0s charge p1; 14m settle p1; 14m settle p1; 14m payable; 14m charge p2; 14m settle p2"},
	{"with the next one, late", purchase.Membership, "0s own-next; 0s charge p1; 15m settle p1"},
	{"with the next one, refunded", purchase.Membership, "0s own-next; 0s charge p1; 0s refund p1; 1m settle p1"},
	{"a free one again", purchase.Membership, "0s free; 0s own-past; 0s charge p1; 1m settle p1; 1m settle p1"},
}

// The golden file shows after each step its answer, the state, and what was published. So the three
// kinds can be compared, and a change of what they share shows what it changes for which kind.
func TestPurchases(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, s := range sequences {
		fmt.Fprintf(&text, "== %s ==\n", s.name)
		known := make(map[string]bool)
		for _, begin := range kinds {
			p := begin()
			if s.only != "" && s.only != p.kind {
				continue
			}
			fmt.Fprintln(&text, p.kind)
			for step := range strings.SplitSeq(s.steps, "; ") {
				answer := p.do(t, step)
				known[step] = known[step] || answer != notOfThisKind
				fmt.Fprintf(&text, "  %-22s %-22s %s\n", step, answer, p.row())
			}
		}
		for step, ok := range known {
			require.True(t, ok, "%s: no kind has %s", s.name, step)
		}
		fmt.Fprintln(&text)
	}
	const path = "testdata/purchases.golden"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text.String())
}

// row shows the state, and what the last step has told others.
func (p *sale) row() string {
	fields := p.fields()
	parts := []string{strings.Join(slices.DeleteFunc(slices.Clone(fields), isZero), " ")}
	for _, e := range p.take() {
		told := []string{e.typ, cmp.Or(e.reason, "-"), paymentName(e.payment), "at=" + offset(e.at)}
		if e.sellerPayment != uuid.Nil {
			told = append(told, "seller="+paymentName(e.sellerPayment))
		}
		for i, f := range e.fields { // what has changed since
			if f != fields[i] {
				told = append(told, f)
			}
		}
		parts = append(parts, strings.Join(told, " "))
	}
	for payment, reason := range p.batch.NewlyEnded {
		parts = append(parts, "ended "+paymentName(payment)+" "+reason)
	}
	for _, n := range p.batch.Notices {
		r, _ := n.Data.(notice.Rejected)
		parts = append(parts, fmt.Sprintf("notice to %s: %s %d %s %s", r.UserID, r.Kind, r.Amount, r.Currency, r.Reason))
	}
	for _, tk := range p.passed {
		parts = append(parts, fmt.Sprintf("passed to %s for %d by %s whole=%d accepted=%s", tk.UserID, tk.Paid, paymentName(tk.PaymentID), tk.OnlyWhole, offset(tk.ChosenAt)))
	}
	return strings.Join(parts, " | ")
}

// isZero reports whether a field has the zero value.
func isZero(field string) bool {
	_, value, named := strings.Cut(field, "=")
	return named && slices.Contains([]string{"", "0", "-", "false"}, value)
}
