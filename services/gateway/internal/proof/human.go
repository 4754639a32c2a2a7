package proof

import (
	"context"
	"net/netip"
	"strconv"

	"urr.guru/pkg/errs"
)

// Provider is a captcha provider: it tests whether a visitor is a person or a program.
type Provider interface {
	// Verify reports whether the token proves that a visitor with this address has passed the test. It
	// returns an error if the provider has not said yes or no.
	Verify(ctx context.Context, token string, address netip.Addr) (passed bool, err error)
}

// HumanTest has the settings of a captcha provider's test. To get a position, visitors must pass it
// in addition to the proof of work.
type HumanTest struct {
	Provider Provider // nil: no test
	// Page is the address of the page with the test.
	Page string
	// FailOpen gives positions without a test while the provider does not answer.
	FailOpen bool
}

// CheckTest fails with errs.ErrCaptchaRequired unless the visitor sends the token of a passed test,
// or has sent one for this round within Life (each token works once). It fails with
// errs.ErrUnavailable while the provider does not answer, unless HumanTest.FailOpen is set.
func (p *Proofs) CheckTest(ctx context.Context, d WorkDebt, token string, address netip.Addr) error {
	if p.test.Provider == nil {
		return nil
	}
	key := "captcha:" + d.Event + ":" + strconv.FormatInt(d.Round, 10) + ":" + d.Visitor
	if p.paid.has(ctx, key) {
		countTest(resultRepeated)
		return nil
	}
	result, err := p.test.verify(ctx, token, address)
	countTest(result)
	if result == resultSolved {
		p.paid.add(ctx, key, p.now().Add(Life))
	}
	return err
}

func (t *HumanTest) verify(ctx context.Context, token string, address netip.Addr) (result string, err error) {
	required := errs.ErrCaptchaRequired.With("captchaUrl", t.Page)
	if token == "" {
		return resultMissing, required
	}
	passed, err := t.Provider.Verify(ctx, token, address)
	switch {
	case err != nil && t.FailOpen:
		return resultUntested, nil
	case err != nil:
		return resultUnavailable, errs.ErrUnavailable.Wrap(err)
	case !passed:
		return resultInvalid, required
	}
	return resultSolved, nil
}
