package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/payment"
)

// errForeign is the error of an answer that does not have Stripe's form.
var errForeign = errors.New("the answer is not in stripe's form")

// failed returns the error of a call. Of an answer it contains only constants: its texts, and those of
// the library's errors, may contain data of the payer.
func failed(operation string, err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		answer := fmt.Errorf("%s: stripe answered status %d, type %q, code %q, decline code %q, parameter %q (request %q)", operation,
			e.HTTPStatusCode, constant(e.Type), constant(e.Code), constant(e.DeclineCode), constant(e.Param), constant(e.RequestID))
		if refusesKey(e) {
			return errors.Join(payment.ErrKeyRefused, answer)
		}
		return answer
	}
	var transport net.Error // also the deadline of the call
	if errors.As(err, &transport) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: %w", operation, errForeign)
}

// constant returns a code as Stripe has sent it; empty if it is no constant, such as a sentence.
func constant[T ~string](code T) string {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-[].:"
	if len(code) > 100 || strings.Trim(string(code), allowed) != "" {
		return ""
	}
	return string(code)
}

// openFailed returns the error of opening a session. It contains ErrKeySpent if Stripe repeats it
// under the same key: after an internal error, and if the parameters differ. It is a NotTakenError
// if Stripe refuses the request itself, for example its amount or currency.
func openFailed(err error) error {
	var e *api.Error
	unknown := failed("open a session", err)
	if !errors.As(err, &e) || busy(e) || refusesKey(e) {
		return unknown
	}
	switch e.Type {
	case api.ErrorTypeAPI, api.ErrorTypeIdempotency:
		return errors.Join(payment.ErrKeySpent, unknown)
	case api.ErrorTypeInvalidRequest:
		if e.HTTPStatusCode == http.StatusTooManyRequests || e.HTTPStatusCode == http.StatusConflict {
			return unknown
		}
		return &payment.NotTakenError{Code: cmp.Or(constant(e.Code), constant(e.Param)), Err: unknown}
	default:
		return unknown
	}
}

// refusesEmail reports whether Stripe has refused the address of the payer. It keeps no such refusal
// under the key, and has made nothing.
func refusesEmail(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Type == api.ErrorTypeInvalidRequest && (e.Code == api.ErrorCodeEmailInvalid || strings.Contains(e.Param, "email"))
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
	case refusesKey(e):
		return payment.Outcome{}, unknown
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
	return e.Code == api.ErrorCodeRateLimit || e.Code == api.ErrorCodeLockTimeout || e.Code == api.ErrorCodeIdempotencyKeyInUse ||
		e.Type == api.ErrorTypeRateLimit || e.HTTPStatusCode == http.StatusTooManyRequests
}

// refusesKey reports whether Stripe does not accept the secret key, or not for this call. Mostly only
// the answer's status says so (docs.stripe.com/api/errors); an answer of a proxy has no type.
func refusesKey(e *api.Error) bool {
	switch e.Code {
	case api.ErrorCodeAPIKeyExpired, api.ErrorCodePlatformAPIKeyExpired, api.ErrorCodeSecretKeyRequired:
		return true
	default:
		return e.Type != "" && (e.HTTPStatusCode == http.StatusUnauthorized || e.HTTPStatusCode == http.StatusForbidden)
	}
}

func declineCode(e *api.Error) string {
	return cmp.Or(constant(e.DeclineCode), constant(e.Code))
}
