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
	voided   = outcome{tickets: 1, paid: 2 * seatPrice}
	refunded = outcome{paid: 2 * seatPrice, givenBack: 2 * seatPrice}
)

// deaths lists at least one death at each failpoint of a sale's services and of their relays, and
// for each provider the deaths between two writes of a payment.
func deaths() []death {
	return slices.Concat(deathsInSale(), deathsInPayment(), deathsAtProvider(platform.Sandbox), deathsAtProvider(platform.Stripe), deathsAtProvider(platform.Toss))
}

// deathAt returns a death of a service at a failpoint.
func deathAt(service, point, journey string, before, act, after step, want outcome) death {
	return death{servicePoint: servicePoint{service, point}, journey: journey, before: before, act: act, after: after, want: want}
}

func slow(d death) death {
	d.slow = true
	return d
}

// What buyers do before and after a death.
var (
	checkout   = sequence(enter, hold, prepare)
	buy        = sequence(checkout, pay("ok-"), awaitTickets)
	buyInLine  = sequence(hold, prepare, pay("ok-"), awaitSlotEnd)
	disputed   = sequence(buy, dispute)
	lateCharge = sequence(checkout, payTooLate)
)

// deathsInSale are the deaths of the queue, stats and ticket services.
func deathsInSale() []death {
	const queue, stats, ticket = platform.Queue, platform.Stats, platform.Ticket
	return []death{
		deathAt(queue, "queue.open.after_ticket", "the first visitor comes", nil, enter, buyInLine, both),
		deathAt(queue, "queue.open.after_line", "the first visitor comes", nil, enter, buyInLine, both),
		deathAt(queue, "queue.act.in_force", "an operator sets the line", enter, setThreshold, sequence(awaitThreshold, buyInLine), both),
		deathAt(queue, "queue.settings.after_ticket", "an operator sets the line", enter, setThreshold, sequence(awaitThreshold, buyInLine), both),
		deathAt(queue, "queue.settings.after_ticket", "before anybody came", nil, setThreshold, sequence(enter, awaitThreshold, buyInLine), both),
		deathAt(queue, "queue.reservation.after_effect", "hold", enter, hold, sequence(prepare, pay("ok-"), awaitSlotEnd), both),
		deathAt(queue, "queue.reservation.after_effect", "purchase", checkout, pay("ok-"), awaitSlotEnd, both),
		deathAt(stats, "stats.count.before_commit", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(stats, "stats.count.after_commit", "refund by user", buy, refund(1), nil, one),
		deathAt(ticket, "ticket.hold.after_commit", "hold", enter, hold, sequence(prepare, pay("ok-")), both),
		deathAt(ticket, "ticket.confirm.before_commit", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(ticket, "ticket.confirm.before_commit", "refund by user", buy, refund(1), nil, one),
		deathAt(ticket, "ticket.confirm.after_commit", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(ticket, "ticket.confirm.after_commit", "refund by operator", buy, refundByOperator, nil, refunded),
		deathAt(ticket, "ticket.claim.before_commit", "refund by user", buy, refund(1), nil, one),
		deathAt(ticket, "ticket.claim.after_commit", "refund by operator", buy, refundByOperator, nil, refunded),
		deathAt(ticket, "ticket.claim.after_commit", "refund by hand", buy, refundByHand, nil, refunded),
		slow(deathAt(ticket, "ticket.abort.before_commit", "refused refund", disputed, refund(1), settleDispute, both)),
		slow(deathAt(ticket, "ticket.abort.after_commit", "refused refund", disputed, refund(2), settleDispute, both)),
		slow(deathAt(ticket, "ticket.walk.before_commit", "cancelled sale", buy, cancelSale, nil, refunded)),
		slow(deathAt(ticket, "ticket.walk.after_commit", "cancelled sale", buy, cancelSale, nil, refunded)),
		deathAt(ticket, "ticket.transfer.before_commit", "ticket sold", buy, sell, nil, sold),
		deathAt(ticket, "ticket.transfer.after_commit", "ticket sold", buy, sell, nil, sold),
		deathAt(ticket, "ticket.confirm.before_commit", "ticket sold", buy, sell, nil, sold),
		deathAt(ticket, "ticket.confirm.after_commit", "ticket sold", buy, sell, nil, sold),
		deathAt(ticket, "ticket.void.before_commit", "voided ticket", buy, void, nil, voided),
		deathAt(ticket, "ticket.void.after_commit", "voided ticket", buy, void, nil, voided),
		deathAt(ticket, "outbox.before_publish", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(ticket, "outbox.after_publish", "refund by user", buy, refund(1), nil, one),
	}
}

// deathsInPayment are the deaths of the payment service in charges by a payment key.
func deathsInPayment() []death {
	const payment = platform.Payment
	return []death{
		slow(deathAt(payment, "payment.confirm.after_confirming", "purchase", checkout, pay("ok-"), nil, both)), // charges again
		slow(deathAt(payment, "payment.confirm.after_begin", "purchase", checkout, pay("ok-"), nil, both)),
		deathAt(payment, "payment.confirm.after_provider", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(payment, "payment.confirm.after_commit", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(payment, "payment.confirm.after_commit", "decline, paid again", checkout, pay("decline-"), payAgain, both),
		slow(deathAt(payment, "payment.confirm.after_release", "ticket hangs", checkout, payWhileTicketHangs, nil, both)),
		slow(deathAt(payment, "payment.settle.after_captured", "refund by hand before the answer", checkout, payAndRefundByHand, nil, refunded)),
		deathAt(payment, "payment.refund.adopted", "refund by hand", buy, refundByHand, nil, refunded),
		deathAt(payment, "payment.refund.requested", "refund by user", buy, refund(1), nil, one),
		deathAt(payment, "payment.refund.after_begin", "refund by operator", buy, refundByOperator, nil, refunded),
		deathAt(payment, "payment.refund.before_send", "refund by user", buy, refund(1), nil, one),
		deathAt(payment, "payment.refund.after_provider", "refund by user", buy, refund(1), nil, one),
		slow(deathAt(payment, "payment.refund.after_provider", "charge after the hold's end", lateCharge, resumeSandbox, nil, refunded)),
		slow(deathAt(payment, "payment.refund.before_publish", "cancelled sale", buy, cancelSale, nil, refunded)),
		deathAt(payment, "payment.refund.after_publish", "refund by user", buy, refund(2), nil, refunded),
		slow(deathAt(payment, "payment.refund.after_abort", "refused refund", disputed, refund(1), settleDispute, both)),
		slow(deathAt(payment, "payment.event.before_commit", "charge after the hold's end", lateCharge, resumeSandbox, nil, refunded)),
		slow(deathAt(payment, "payment.event.after_commit", "cancelled sale", buy, cancelSale, nil, refunded)),
		deathAt(payment, "payment.event.before_commit", "ticket sold", buy, sell, nil, sold),
		deathAt(payment, "payment.event.after_commit", "ticket sold", buy, sell, nil, sold),
		deathAt(payment, "payment.refund.after_provider", "ticket sold", buy, sell, nil, sold),
		deathAt(payment, "outbox.before_publish", "purchase", checkout, pay("ok-"), nil, both),
		deathAt(payment, "outbox.after_publish", "refund by operator", buy, refundByOperator, nil, refunded),
	}
}

// deathsAtProvider are deaths of the payment service in a payment on a provider's page: from the
// claim on the places to the charge, while the payment is ended, and while it is refunded.
func deathsAtProvider(provider string) []death {
	const payment = platform.Payment
	held := sequence(enter, hold, chooseProvider(provider))
	onPage := sequence(held, preparePage)
	bought := sequence(onPage, payOnPage, awaitTickets)
	list := []death{
		deathAt(payment, "payment.prepare.after_claim", "purchase", held, sequence(preparePage, payOnPage), nil, both),
		deathAt(payment, "payment.prepare.after_page", "purchase", held, sequence(preparePage, payOnPage), nil, both),
		deathAt(payment, "payment.prepare.after_open", "purchase", held, sequence(preparePage, payOnPage), nil, both),
		deathAt(payment, "payment.confirm.after_confirming", "purchase", onPage, payOnPage, nil, both),
		deathAt(payment, "payment.confirm.after_begin", "purchase", onPage, payOnPage, nil, both),
		deathAt(payment, "payment.confirm.after_provider", "purchase", onPage, payOnPage, nil, both),
		deathAt(payment, "payment.confirm.after_commit", "purchase", onPage, payOnPage, nil, both),
		deathAt(payment, "payment.end.after_abort", "change of mind", onPage, giveUp, payOnOtherPage, both),
		deathAt(payment, "payment.refund.requested", "refund by user", bought, refund(1), nil, one),
		deathAt(payment, "payment.refund.after_begin", "refund by operator", bought, refundByOperator, nil, refunded),
		deathAt(payment, "payment.refund.before_send", "refund by user", bought, refund(1), nil, one),
		deathAt(payment, "payment.refund.after_provider", "refund by user", bought, refund(1), nil, one),
	}
	if provider != platform.Toss { // Toss closes no page: a cancellation is a refund
		list = append(list, deathAt(payment, "payment.end.after_cancel", "change of mind", onPage, giveUp, payOnOtherPage, both))
	}
	for i := range list {
		list[i].journey += " at " + provider
		list[i].slow = list[i].point == "payment.confirm.after_confirming" || list[i].point == "payment.confirm.after_begin"
	}
	return list
}

// TestFailpointsAreListed compares the list of failpoints at which processes are killed with those
// in the code: none is missing, and each listed one exists.
func TestFailpointsAreListed(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	named := map[servicePoint]bool{}
	for _, service := range []string{platform.Queue, platform.Stats, platform.Ticket, platform.Payment} {
		for _, point := range failpointsOf(t, filepath.Join(layout.Root, "services", service)) {
			named[servicePoint{service, point}] = true
		}
	}
	for _, point := range failpointsOf(t, filepath.Join(layout.Root, "pkg")) { // of the relay
		named[servicePoint{platform.Ticket, point}], named[servicePoint{platform.Payment, point}] = true, true
	}
	require.Greater(t, len(named), 30)
	listed := map[servicePoint]bool{}
	for _, d := range deaths() {
		listed[d.servicePoint] = true
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
