package stripe

import (
	"errors"
	"fmt"
	"net"

	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/payment"
)

// failed returns the error of a call. It contains only codes and Stripe's message: the text of the
// library's error contains the whole answer, with data of the payer.
func failed(operation string, err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: stripe answered %s %s %s: %s (request %s)", operation, e.Type, e.Code, e.DeclineCode, e.Msg, e.RequestID)
}

// openFailed returns the error of opening a session. It contains ErrKeySpent if Stripe repeats it
// under the same key: after an internal error, and if the parameters differ.
func openFailed(err error) error {
	var e *api.Error
	unknown := failed("open a session", err)
	if errors.As(err, &e) && !busy(e) && (e.Type == api.ErrorTypeAPI || e.Type == api.ErrorTypeIdempotency) {
		return errors.Join(payment.ErrKeySpent, unknown)
	}
	return unknown
}

// captureFailed returns the outcome of a capture that failed. It depends on the type and the code,
// never on the HTTP status: a proxy on the way answers statuses too.
func captureFailed(err error) (payment.Outcome, error) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return payment.Outcome{}, errors.Join(payment.ErrNotSent, err)
	}
	var e *api.Error
	unknown := failed("capture", err)
	if !errors.As(err, &e) {
		return payment.Outcome{}, unknown // no answer, or one that is not from Stripe
	}
	switch {
	case e.Type == api.ErrorTypeCard:
		return payment.Outcome{State: payment.Refused, DeclineCode: declineCode(e)}, nil
	case !busy(e) && (e.Type == api.ErrorTypeIdempotency || e.Type == api.ErrorTypeInvalidRequest):
		// The intent is in another state, or the request is wrong: the next look-up shows which.
		return payment.Outcome{}, errors.Join(payment.ErrChargeRejected, unknown)
	default:
		return payment.Outcome{}, unknown
	}
}

// busy reports whether Stripe has not begun the call. It may then be repeated under its key.
func busy(e *api.Error) bool {
	return e.Code == api.ErrorCodeRateLimit || e.Code == api.ErrorCodeLockTimeout || e.Code == api.ErrorCodeIdempotencyKeyInUse
}

func declineCode(e *api.Error) string {
	if e.DeclineCode != "" {
		return string(e.DeclineCode)
	}
	return string(e.Code)
}
