package chaos_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// Outcomes of a buyer of two tickets.
var (
	both     = outcome{tickets: 2, paid: 2 * seatPrice}
	one      = outcome{tickets: 1, paid: 2 * seatPrice, givenBack: seatPrice}
	sold     = outcome{tickets: 1, passedOn: 1, paid: 2 * seatPrice, givenBack: seatPrice}
	refunded = outcome{paid: 2 * seatPrice, givenBack: 2 * seatPrice}
)

// deaths lists a death, at least, at each failpoint of the services of a sale and their relays, and
// for each provider at those between two writes of a payment.
func deaths() []death {
	return slices.Concat(deathsInSale(), deathsInPayment(), deathsAt(platform.Sandbox), deathsAt(platform.Stripe), deathsAt(platform.Toss))
}

// at is the death of a service at a failpoint.
func at(service, point, journey string, before, act, after step, want outcome) death {
	return death{place: place{service, point}, journey: journey, before: before, act: act, after: after, want: want}
}

func slow(d death) death {
	d.slow = true
	return d
}

// What buyers do before and after a death.
var (
	checkout  = steps(enter, hold, prepare)
	buy       = steps(checkout, pay("ok-"), haveTickets)
	buyInLine = steps(hold, prepare, pay("ok-"), leaveLine)
	disputed  = steps(buy, dispute)
	late      = steps(checkout, payTooLate)
)

// deathsInSale are those of queue, stats and ticket.
func deathsInSale() []death {
	const queue, stats, ticket = platform.Queue, platform.Stats, platform.Ticket
	return []death{
		at(queue, "queue.open.after_ticket", "the first visitor comes", nil, enter, buyInLine, both),
		at(queue, "queue.open.after_line", "the first visitor comes", nil, enter, buyInLine, both),
		at(queue, "queue.act.in_force", "an operator sets the line", enter, setThreshold, steps(haveThreshold, buyInLine), both),
		at(queue, "queue.settings.after_ticket", "an operator sets the line", enter, setThreshold, steps(haveThreshold, buyInLine), both),
		at(queue, "queue.settings.after_ticket", "before anybody came", nil, setThreshold, steps(enter, haveThreshold, buyInLine), both),
		at(queue, "queue.reservation.after_effect", "hold", enter, hold, steps(prepare, pay("ok-"), leaveLine), both),
		at(queue, "queue.reservation.after_effect", "purchase", checkout, pay("ok-"), leaveLine, both),
		at(stats, "stats.count.before_commit", "purchase", checkout, pay("ok-"), nil, both),
		at(stats, "stats.count.after_commit", "refund by user", buy, refund(1), nil, one),
		at(ticket, "ticket.hold.after_commit", "hold", enter, hold, steps(prepare, pay("ok-")), both),
		at(ticket, "ticket.confirm.before_commit", "purchase", checkout, pay("ok-"), nil, both),
		at(ticket, "ticket.confirm.before_commit", "refund by user", buy, refund(1), nil, one),
		at(ticket, "ticket.confirm.after_commit", "purchase", checkout, pay("ok-"), nil, both),
		at(ticket, "ticket.confirm.after_commit", "refund by operator", buy, refundByOperator, nil, refunded),
		at(ticket, "ticket.claim.before_commit", "refund by user", buy, refund(1), nil, one),
		at(ticket, "ticket.claim.after_commit", "refund by operator", buy, refundByOperator, nil, refunded),
		at(ticket, "ticket.claim.after_commit", "refund by hand", buy, refundByHand, nil, refunded),
		slow(at(ticket, "ticket.abort.before_commit", "refused refund", disputed, refund(1), settleDispute, both)),
		slow(at(ticket, "ticket.abort.after_commit", "refused refund", disputed, refund(2), settleDispute, both)),
		slow(at(ticket, "ticket.walk.before_commit", "cancelled sale", buy, cancelSale, nil, refunded)),
		slow(at(ticket, "ticket.walk.after_commit", "cancelled sale", buy, cancelSale, nil, refunded)),
		at(ticket, "ticket.transfer.before_commit", "ticket sold", buy, sell, nil, sold),
		at(ticket, "ticket.transfer.after_commit", "ticket sold", buy, sell, nil, sold),
		at(ticket, "ticket.confirm.before_commit", "ticket sold", buy, sell, nil, sold),
		at(ticket, "ticket.confirm.after_commit", "ticket sold", buy, sell, nil, sold),
		at(ticket, "outbox.before_publish", "purchase", checkout, pay("ok-"), nil, both),
		at(ticket, "outbox.after_publish", "refund by user", buy, refund(1), nil, one),
	}
}

// deathsInPayment are those of payment, of payments that are charged with a key.
func deathsInPayment() []death {
	const payment = platform.Payment
	return []death{
		slow(at(payment, "payment.confirm.after_confirming", "purchase", checkout, pay("ok-"), nil, both)), // charged again
		slow(at(payment, "payment.confirm.after_begin", "purchase", checkout, pay("ok-"), nil, both)),
		at(payment, "payment.confirm.after_provider", "purchase", checkout, pay("ok-"), nil, both),
		at(payment, "payment.confirm.after_commit", "purchase", checkout, pay("ok-"), nil, both),
		at(payment, "payment.confirm.after_commit", "decline, paid again", checkout, pay("decline-"), payAgain, both),
		slow(at(payment, "payment.confirm.after_release", "ticket hangs", checkout, payWhileTicketHangs, nil, both)),
		slow(at(payment, "payment.settle.after_captured", "refund by hand before the answer", checkout, payAndRefundByHand, nil, refunded)),
		at(payment, "payment.refund.adopted", "refund by hand", buy, refundByHand, nil, refunded),
		at(payment, "payment.refund.requested", "refund by user", buy, refund(1), nil, one),
		at(payment, "payment.refund.after_begin", "refund by operator", buy, refundByOperator, nil, refunded),
		at(payment, "payment.refund.before_send", "refund by user", buy, refund(1), nil, one),
		at(payment, "payment.refund.after_provider", "refund by user", buy, refund(1), nil, one),
		slow(at(payment, "payment.refund.after_provider", "charge after the hold's end", late, resumeSandbox, nil, refunded)),
		slow(at(payment, "payment.refund.before_publish", "cancelled sale", buy, cancelSale, nil, refunded)),
		at(payment, "payment.refund.after_publish", "refund by user", buy, refund(2), nil, refunded),
		slow(at(payment, "payment.refund.after_abort", "refused refund", disputed, refund(1), settleDispute, both)),
		slow(at(payment, "payment.event.before_commit", "charge after the hold's end", late, resumeSandbox, nil, refunded)),
		slow(at(payment, "payment.event.after_commit", "cancelled sale", buy, cancelSale, nil, refunded)),
		at(payment, "payment.event.before_commit", "ticket sold", buy, sell, nil, sold),
		at(payment, "payment.event.after_commit", "ticket sold", buy, sell, nil, sold),
		at(payment, "payment.refund.after_provider", "ticket sold", buy, sell, nil, sold),
		at(payment, "outbox.before_publish", "purchase", checkout, pay("ok-"), nil, both),
		at(payment, "outbox.after_publish", "refund by operator", buy, refundByOperator, nil, refunded),
	}
}

// deathsAt are those of payment between two writes of a payment on a provider's page: from the
// claim of the places to the charge, while it is ended, and while it is refunded.
func deathsAt(provider string) []death {
	const payment = platform.Payment
	held := steps(enter, hold, chooseProvider(provider))
	onPage := steps(held, preparePage)
	bought := steps(onPage, payOnPage, haveTickets)
	list := []death{
		at(payment, "payment.prepare.after_claim", "purchase", held, steps(preparePage, payOnPage), nil, both),
		at(payment, "payment.prepare.after_page", "purchase", held, steps(preparePage, payOnPage), nil, both),
		at(payment, "payment.prepare.after_open", "purchase", held, steps(preparePage, payOnPage), nil, both),
		at(payment, "payment.confirm.after_confirming", "purchase", onPage, payOnPage, nil, both),
		at(payment, "payment.confirm.after_begin", "purchase", onPage, payOnPage, nil, both),
		at(payment, "payment.confirm.after_provider", "purchase", onPage, payOnPage, nil, both),
		at(payment, "payment.confirm.after_commit", "purchase", onPage, payOnPage, nil, both),
		at(payment, "payment.end.after_abort", "change of mind", onPage, giveUp, payOnOtherPage, both),
		at(payment, "payment.refund.requested", "refund by user", bought, refund(1), nil, one),
		at(payment, "payment.refund.after_begin", "refund by operator", bought, refundByOperator, nil, refunded),
		at(payment, "payment.refund.before_send", "refund by user", bought, refund(1), nil, one),
		at(payment, "payment.refund.after_provider", "refund by user", bought, refund(1), nil, one),
	}
	if provider != platform.Toss { // where nothing can be closed: a cancellation is a refund
		list = append(list, at(payment, "payment.end.after_cancel", "change of mind", onPage, giveUp, payOnOtherPage, both))
	}
	for i := range list {
		list[i].journey += " at " + provider
		list[i].slow = list[i].point == "payment.confirm.after_confirming" || list[i].point == "payment.confirm.after_begin"
	}
	return list
}

// TestFailpointsAreListed compares the list of deaths with the failpoints that the code names: none is
// missing, and each that is listed exists.
func TestFailpointsAreListed(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	named := map[place]bool{}
	for _, service := range []string{platform.Queue, platform.Stats, platform.Ticket, platform.Payment} {
		for _, point := range failpointsOf(t, filepath.Join(layout.Root, "services", service)) {
			named[place{service, point}] = true
		}
	}
	for _, point := range failpointsOf(t, filepath.Join(layout.Root, "pkg")) { // of the relay
		named[place{platform.Ticket, point}], named[place{platform.Payment, point}] = true, true
	}
	require.Greater(t, len(named), 30)
	listed := map[place]bool{}
	for _, d := range deaths() {
		listed[d.place] = true
	}
	require.Equal(t, named, listed)
}

// failpointsOf returns the names of the failpoints in the code below a folder.
func failpointsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && isFailpoint(f) {
				literal, ok := call.Args[0].(*ast.BasicLit)
				require.True(t, ok, "%s: a failpoint whose name is not in the code", path)
				name, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				names = append(names, name)
			}
			return true
		})
		return nil
	}))
	return names
}

// isFailpoint reports whether a function is failpoint.Hit or failpoint.Err.
func isFailpoint(f *ast.SelectorExpr) bool {
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "failpoint" && (f.Sel.Name == "Hit" || f.Sel.Name == "Err")
}
