package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
)

// testMoneyByHand buys three tickets, of which the provider's dashboard gives one back. The refund
// of the first is held until an operator says that it was this one, the operator assigns a second
// such refund to the second, and voids the third. The buyer's order and the operator's show each
// step.
func testMoneyByHand(t *testing.T) {
	t.Parallel()
	for _, p := range variants {
		t.Run(p.String(), func(t *testing.T) {
			parallelTab(t)
			const price, all = 55000, "main input[type=checkbox]"
			event := sale{sections: []object{{"section": "A", "price": price, "rows": 2, "seatsPerRow": 6}}}.open(t)
			user := uniqueID("hotline")
			says := words(t, p.lang)
			b := openTab(t, platformURL, p.device, p.lang)
			b.openSeatMap(event, user)
			b.chooseFromList(3)
			b.click(".selection .wide")
			b.waitForPath("/checkout/")
			b.payWith("ok")
			b.waitFor(".notice.good")
			b.visit("/my")
			b.waitForText("Autumn Light " + event) // the list moves until its titles are shown
			b.waitFor(`main a[href^="/orders/"]`)
			b.click(`main a[href^="/orders/"]`)
			b.waitFor(all + ":enabled")
			path := eval[string](b, "location.pathname")
			ids := eval[[]string](b, fmt.Sprintf("[...document.querySelectorAll(%q)].map(i => i.value)", all))
			require.Len(t, ids, 3)
			o := findPaidOrder(signIn(t, "admin"), event, user)

			o.refundAtProvider(price)
			b.click(all)
			b.waitFor("form button[type=submit]:enabled")
			b.click("form button[type=submit]")
			b.waitForText(says["order"]["HELD"])
			b.checkPage("an order with a held refund")
			operators := openTab(t, platformURL, p.device, p.lang)
			operators.startSession(uniqueID("operator"), "admin")
			operators.visit("/admin/orders/" + o.id)
			operators.waitForText("BY_HAND")
			operators.waitForText(strings.TrimSpace(strings.ReplaceAll(says["orders"]["unassigned"], "{amount}", "")))
			operators.checkPage("money by hand that is not assigned")
			o.act("refunds/"+o.heldRefund()+"/resolve", object{"paidOtherwise": false, "note": "this ticket"})
			b.waitForText(says["refund"]["REFUNDED"])
			b.waitForText(says["order"]["DONE"])
			require.Equal(t, 1, eval[int](b, "document.querySelectorAll('.refund strong').length"), "the money came back once")

			o.refundAtProvider(price)
			o.act("payments/"+o.read().PaymentID+"/by-hand", object{"ticketIds": ids[1:2]})
			o.act("tickets/"+ids[2]+"/void", object{"reason": "stolen card"})
			b.visit(path)
			b.waitForText(says["refund"]["VOIDED"])
			b.until("two refunded tickets", fmt.Sprintf("document.querySelector('form').innerText.split(%q).length === 3", says["refund"]["REFUNDED"]))
			b.checkPage("an order with a voided and two refunded tickets")
			operators.visit("/admin/orders/" + o.id)
			operators.waitForText("stolen card")
			operators.checkPage("money by hand that is assigned")
		})
	}
}

// paidOrder is an order with one payment, for an operator.
type paidOrder struct {
	*visitor

	id string
}

// orderPayment has what the tests read of an order's payment.
type orderPayment struct {
	PaymentID, OrderID string
	Unassigned         int
	Refunds            []orderRefund
}

type orderRefund struct{ RefundID, Status string }

// findPaidOrder finds the only order of a user.
func findPaidOrder(operator *visitor, event, user string) paidOrder {
	operator.t.Helper()
	var list struct {
		Items []struct{ ReservationID string }
	}
	operator.get("/api/v1/admin/orders?eventId="+event+"&user="+user, &list)
	require.Len(operator.t, list.Items, 1)
	return paidOrder{operator, list.Items[0].ReservationID}
}

// get reads a resource.
func (v *visitor) get(path string, to any) {
	v.t.Helper()
	raw, err := json.Marshal(v.call(http.MethodGet, path, nil))
	require.NoError(v.t, err)
	require.NoError(v.t, json.Unmarshal(raw, to))
}

func (o paidOrder) read() orderPayment {
	o.t.Helper()
	var order struct{ Payments []orderPayment }
	o.get("/api/v1/admin/orders/"+o.id, &order)
	require.Len(o.t, order.Payments, 1)
	return order.Payments[0]
}

// act makes a call of an operator once.
func (o paidOrder) act(path string, body object) {
	o.t.Helper()
	o.key = uuid.NewString()
	o.call(http.MethodPost, "/api/v1/admin/"+path, body)
}

// refundAtProvider refunds a part of the charge, as a person does on the provider's dashboard, and
// waits until the shop knows it, and that it has ended no ticket: before, nothing can be assigned.
func (o paidOrder) refundAtProvider(amount int) {
	o.t.Helper()
	url := fmt.Sprintf("http://%s/v1/charges/%s/refunds/by-hand", services.Service(platform.Sandbox).Addr(0), o.read().OrderID)
	r, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, url, strings.NewReader(fmt.Sprintf(`{"amount":%d}`, amount)))
	require.NoError(o.t, err)
	res, err := o.client.Do(r)
	require.NoError(o.t, err)
	require.NoError(o.t, res.Body.Close())
	require.Equal(o.t, http.StatusOK, res.StatusCode)
	testkit.Until(o.t, func() bool {
		p := o.read()
		open := slices.ContainsFunc(p.Refunds, func(r orderRefund) bool { return r.Status == "REQUESTED" })
		return p.Unassigned == amount && !open
	}, "unassigned money by hand")
}

// heldRefund returns the id of the refund that is held.
func (o paidOrder) heldRefund() string {
	o.t.Helper()
	for _, r := range o.read().Refunds {
		if r.Status == "HELD" {
			return r.RefundID
		}
	}
	require.Fail(o.t, "no refund is held")
	return ""
}
