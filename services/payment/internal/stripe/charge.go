package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/payment"
)

// The metadata keys under which objects at Stripe contain the ids of this service.
const (
	orderKey  = "urr_order"
	refundKey = "urr_refund"
)

// sessionLife is how long after the payment's ExpiresAt a session ends: Stripe requires at least 30
// min. Cancel ends the session earlier.
const sessionLife = 40 * time.Minute

// Open makes a session. Its parameters depend on the payment only, since Stripe compares them when
// the call is repeated under its key. If Stripe refuses the payer's address, the session has none.
func (c *Client) Open(ctx context.Context, p payment.Payment) (payment.Page, error) {
	return c.open(ctx, p, p.ID.String()+":open")
}

func (c *Client) open(ctx context.Context, p payment.Payment, key string) (payment.Page, error) {
	amount, err := toStripe(p.Amount, p.Currency)
	if err != nil {
		return payment.Page{}, &payment.NotTakenError{Code: "amount", Err: err}
	}
	returnURL := c.opts.ReturnURL + "?" + url.Values{"orderId": {p.OrderID}, "token": {p.Token}}.Encode()
	order := map[string]string{orderKey: p.OrderID}
	params := &api.CheckoutSessionCreateParams{
		Mode: api.String("payment"), ClientReferenceID: api.String(p.OrderID), Metadata: order,
		SuccessURL: api.String(returnURL), CancelURL: api.String(returnURL),
		ExpiresAt:       api.Int64(p.ExpiresAt.Add(sessionLife).Unix()),
		AdaptivePricing: &api.CheckoutSessionCreateAdaptivePricingParams{Enabled: api.Bool(false)}, // the payer pays in our currency
		PaymentIntentData: &api.CheckoutSessionCreatePaymentIntentDataParams{
			CaptureMethod: api.String("manual"), Metadata: order, Description: api.String(p.Description),
		},
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{
			Quantity: api.Int64(1),
			PriceData: &api.CheckoutSessionCreateLineItemPriceDataParams{
				Currency: api.String(strings.ToLower(p.Currency)), UnitAmount: api.Int64(amount),
				ProductData: &api.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: api.String(p.Description)},
			},
		}},
	}
	if p.StatementSuffix != "" {
		params.PaymentIntentData.StatementDescriptorSuffix = api.String(p.StatementSuffix)
	}
	if p.Email != "" { // for the receipt, and against fraud
		params.CustomerEmail, params.PaymentIntentData.ReceiptEmail = api.String(p.Email), api.String(p.Email)
	}
	params.SetIdempotencyKey(key)
	s, err := c.api().V1CheckoutSessions.Create(ctx, params)
	switch {
	case p.Email != "" && refusesEmail(err):
		p.Email = ""
		return c.open(ctx, p, key+":anonymous")
	case err != nil:
		return payment.Page{}, openFailed(err)
	case s.ID == "" || s.URL == "":
		return payment.Page{}, errors.New("open a session: the answer has no address")
	}
	return payment.Page{URL: s.URL, Ref: s.ID}, nil
}

// errNoOrder is returned if the address to which the buyer comes back contains no order id.
var errNoOrder = errors.New("the address names no order")

func (c *Client) Return(params map[string]string) (payment.Auth, error) { return DecodeReturn(params) }

// DecodeReturn decodes the parameters with which a buyer comes back. They do not contain whether
// the buyer has paid: the session must be looked up.
func DecodeReturn(params map[string]string) (payment.Auth, error) {
	if params["orderId"] == "" {
		return payment.Auth{}, errNoOrder
	}
	return payment.Auth{OrderID: params["orderId"], Token: params["token"]}, nil
}

// session returns a session with its payment intent.
func (c *Client) session(ctx context.Context, ref string) (*api.CheckoutSession, error) {
	params := &api.CheckoutSessionRetrieveParams{}
	params.AddExpand("payment_intent.latest_charge")
	s, err := c.api().V1CheckoutSessions.Retrieve(ctx, ref, params)
	if err != nil {
		return nil, failed("look up a session", err)
	}
	return s, nil
}

func (c *Client) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	if p.Ref == "" { // no page was opened, so nobody can have paid
		return payment.Outcome{State: payment.Absent}, nil
	}
	s, err := c.session(ctx, p.Ref)
	if err != nil {
		return payment.Outcome{}, err
	}
	return outcome(p, s)
}

// outcome returns the outcome of a session and its intent. There is no intent until the buyer pays.
// A card that is declined on the page leaves the session open.
func outcome(p payment.Payment, s *api.CheckoutSession) (payment.Outcome, error) {
	state := payment.Waiting
	switch s.Status {
	case api.CheckoutSessionStatusExpired:
		state = payment.Void
	case api.CheckoutSessionStatusComplete:
		state = payment.Pending
	case api.CheckoutSessionStatusOpen:
	default:
		return payment.Outcome{}, fmt.Errorf("session has the unknown status %q", s.Status)
	}
	if s.PaymentIntent == nil {
		return payment.Outcome{State: state}, nil
	}
	return outcomeOf(p, s.PaymentIntent, state)
}

// outcomeOf returns the outcome of an intent; open is the state to return while it is undecided.
func outcomeOf(p payment.Payment, pi *api.PaymentIntent, open payment.State) (payment.Outcome, error) {
	if pi.Metadata[orderKey] != p.OrderID || !strings.EqualFold(string(pi.Currency), p.Currency) {
		return payment.Outcome{}, fmt.Errorf("%w: intent %s", payment.ErrOtherCharge, pi.ID)
	}
	switch pi.Status {
	case api.PaymentIntentStatusSucceeded:
		out := payment.Outcome{State: payment.Captured, ChargeID: pi.ID}
		var err, refundedErr error
		out.Amount, err = fromStripe(pi.AmountReceived, p.Currency)
		if pi.LatestCharge != nil {
			out.Refunded, refundedErr = fromStripe(pi.LatestCharge.AmountRefunded, p.Currency)
			out.ReceiptURL = payment.ReceiptAt(pi.LatestCharge.ReceiptURL, "stripe.com")
		}
		return out, errors.Join(err, refundedErr)
	case api.PaymentIntentStatusRequiresCapture:
		return payment.Outcome{State: payment.Authorized, Authorization: pi.ID}, nil
	case api.PaymentIntentStatusCanceled:
		return payment.Outcome{State: payment.Void}, nil
	default: // requires_payment_method, requires_confirmation, requires_action, processing
		out := payment.Outcome{State: open}
		if pi.LastPaymentError != nil {
			out.DeclineCode = declineCode(pi.LastPaymentError)
		}
		return out, nil
	}
}

// errNotPaid means that a charge was not sent, since the buyer has not paid on the page.
var errNotPaid = errors.New("the buyer has not paid on the page")

// Charge captures the intent of the payment's own session, and ignores keys from requests, since
// they could be another order's intent. Each attempt has a new key, since Stripe repeats an
// internal error under its key for a day. Stripe captures an intent only once, under whatever key.
func (c *Client) Charge(ctx context.Context, p payment.Payment, seen payment.Outcome) (payment.Outcome, error) {
	if p.Ref == "" {
		return payment.Outcome{}, errors.Join(payment.ErrNotSent, payment.ErrChargeRejected, errNotPaid)
	}
	if seen.Authorization == "" {
		s, err := c.session(ctx, p.Ref)
		if err != nil {
			return payment.Outcome{}, errors.Join(payment.ErrNotSent, err)
		}
		seen, err = outcome(p, s)
		switch {
		case err != nil:
			return payment.Outcome{}, errors.Join(payment.ErrNotSent, payment.ErrChargeRejected, err)
		case seen.State == payment.Waiting:
			return payment.Outcome{}, errors.Join(payment.ErrNotSent, payment.ErrChargeRejected, errNotPaid)
		case seen.State != payment.Authorized:
			return seen, nil
		}
	}
	amount, err := toStripe(p.Amount, p.Currency)
	if err != nil {
		return payment.Outcome{}, errors.Join(payment.ErrNotSent, payment.ErrChargeRejected, err)
	}
	params := &api.PaymentIntentCaptureParams{AmountToCapture: api.Int64(amount)}
	params.AddExpand("latest_charge")
	params.SetIdempotencyKey(fmt.Sprintf("%s:capture:%d", p.ID, p.Attempt))
	pi, err := c.api().V1PaymentIntents.Capture(ctx, seen.Authorization, params)
	if err != nil {
		return captureFailed(err)
	}
	return outcomeOf(p, pi, payment.Pending)
}

// errNotCancelled means that the call that cancels a session or an intent has not cancelled it.
var errNotCancelled = errors.New("the session was not cancelled")

// Cancel expires an open session, or cancels an authorised intent. It never refunds.
func (c *Client) Cancel(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	if p.Ref == "" {
		return payment.Outcome{State: payment.Void}, nil
	}
	s, err := c.session(ctx, p.Ref)
	if err != nil {
		return payment.Outcome{}, err
	}
	out, err := outcome(p, s)
	if err != nil {
		return payment.Outcome{}, err
	}
	switch out.State {
	case payment.Waiting:
		s, err := c.api().V1CheckoutSessions.Expire(ctx, p.Ref, &api.CheckoutSessionExpireParams{})
		if err != nil {
			return payment.Outcome{}, failed("expire a session", err) // it may be paid meanwhile: the caller asks again
		}
		if s.Status != api.CheckoutSessionStatusExpired {
			return payment.Outcome{}, errNotCancelled
		}
	case payment.Authorized:
		pi, err := c.api().V1PaymentIntents.Cancel(ctx, s.PaymentIntent.ID, &api.PaymentIntentCancelParams{})
		if err != nil {
			return payment.Outcome{}, failed("cancel an intent", err)
		}
		if pi.Status != api.PaymentIntentStatusCanceled {
			return payment.Outcome{}, errNotCancelled
		}
	case payment.Pending: // the bank is still deciding
		return payment.Outcome{State: payment.NotPossible}, nil
	default: // void already, or captured
		return out, nil
	}
	return payment.Outcome{State: payment.Void}, nil
}
