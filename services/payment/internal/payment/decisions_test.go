package payment

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

var update = flag.Bool("update", false, "rewrite the table of decisions in the README")

// decisions are the decisions about payments, in the order in which a payment meets them. Each is
// tried in each status, by whoever still has the payment's lease unless its name says otherwise.
var decisions = []struct {
	name   string
	decide Decide
}{
	{"a page is opened", opened(Page{URL: "u"}, now.Add(time.Minute))},
	{"ticket refuses before a page", refusedPage("X")},
	{"the provider never opens a page", notTaken("X")},
	{"the provider has opened none", unopened},
	{"back from the page", returned("k")},
	{"declined on the page", declinedOnPage("X")},
	{"the page is closed", closed},
	{"the payer gives up", givenUp("ann")},
	{"another payer gives up", givenUp("bob")},
	{"another payment of the reference", Superseded},
	{"the time to pay is over", func(p Payment, _ time.Time) (*Change, error) { return expired(p, p.ExpiresAt) }},
	{"the time to pay is not over", expired},
	{"confirmed by the payer", begin(ConfirmRequest{UserID: "ann", Amount: 1000}, time.Second, nil)},
	{"confirmed too late", func(p Payment, _ time.Time) (*Change, error) {
		return begin(ConfirmRequest{UserID: "ann", Amount: 1000}, time.Second, nil)(p, p.ExpiresAt)
	}},
	{"confirmed with another amount", begin(ConfirmRequest{UserID: "ann", Amount: 1}, time.Second, nil)},
	{"the sweeper charges", chargedBySweeper(paymentIn(Open), "k", Capabilities{})},
	{"the sweeper charges again", chargedBySweeper(paymentIn(Unknown), "k", Capabilities{})},
	{"ticket refuses the charge", refused(3, "X")},
	{"the provider cannot be reached", unreachable(3)},
	{"the same, without the lease", unreachable(2)},
	{"not sent, was PREPARED", postponed(3, Payment{Status: Prepared}, "")},
	{"not sent, was OPEN", postponed(3, Payment{Status: Open}, "")},
	{"the outcome is not known", unsettled(3, "")},
	{"the same, without the lease", unsettled(2, "")},
	{"not charged again", notAgain(3, paymentIn(Unknown), "")},
	{"the hold is lost", lost(3, paymentIn(Unknown))},
	{"the provider answers an error", answered(3, paymentIn(Unknown), "X")},
	{"charged, however late", captured(Outcome{ChargeID: "c"}, Never)},
	{"charged a wrong amount", wrongAmount(uuid.New(), Outcome{Amount: 999})},
	{"never charged", declined("X", "")},
	{"ticket may have claimed late", reclaimed},
	{"ticket has rejected it", owedOnce},
	{"the payer wants a refund", requestedBy("ann")},
	{"another payer wants a refund", requestedBy("bob")},
}

func requestedBy(user string) Decide {
	decide := requested(Refund{Cause: ByUser, Scope: RefundScope{UserID: user}})
	return func(p Payment, now time.Time) (*Change, error) { return decide(p, EarlierRefunds{}, now) }
}

// The README has what each decision does in each status: the new status, a refusal, or nothing. So a
// change of a decision shows for which status it changes what.
func TestDecisions(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- decisions -->\n", "<!-- /decisions -->\n"
	var reasons []string
	number := func(reason string) int {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		return slices.Index(reasons, reason) + 1
	}
	table := "|"
	for _, s := range allStatuses {
		table += " | " + string(s)
	}
	table += " |\n|" + strings.Repeat(" --- |", len(allStatuses)+1) + "\n"
	for _, d := range decisions {
		table += "| " + d.name
		for _, s := range allStatuses {
			change, err := d.decide(paymentIn(s), now)
			switch {
			case err != nil:
				table += fmt.Sprintf(" | refused %d", number(errs.From(err).Reason))
			case change == nil:
				table += " | "
			default:
				table += " | " + string(change.Status)
			}
		}
		table += " |\n"
	}
	table += "\nRefused:"
	for i, reason := range reasons {
		table += fmt.Sprintf(" %d `%s`", i+1, reason)
	}
	table += "\n"
	const path = "../../README.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	shown, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table+end+after), 0o600))
		return
	}
	require.Equal(t, table, shown, "go test ./internal/payment -run Decisions -args -update rewrites it")
}
