package chaos_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"urr.guru/scripts/internal/payer"
	"urr.guru/scripts/platform"
)

// chooseProvider returns a step after which the buyer pays at this provider.
func chooseProvider(name string) step {
	return func(_ context.Context, v *victim) error {
		v.provider = name
		return nil
	}
}

// preparePage opens the provider's page. It repeats prepare until there is a page.
func preparePage(ctx context.Context, v *victim) error {
	return retry(ctx, func() error {
		err := prepare(ctx, v)
		if err == nil && (v.Page == nil || v.Page.URL == "") {
			err = errors.New("no page yet")
		}
		return err
	})
}

// payOnPage pays on the provider's page. At the sandbox the buyer does not come back to the shop,
// which learns of the payment by a webhook.
func payOnPage(ctx context.Context, v *victim) error {
	if v.provider != platform.Sandbox {
		return v.OnPage(ctx, v.Page.URL, payer.Pay)
	}
	form := strings.NewReader(url.Values{"choice": {"stay"}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.Page.URL, form)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err = errors.New("page: " + res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

// giveUp cancels the payment while its page is open.
func giveUp(ctx context.Context, v *victim) error {
	return v.post(ctx, v.Client, "/api/v1/payments/"+v.PaymentID+"/cancel", map[string]any{}, nil)
}

// payOnOtherPage pays the same reservation on another page.
func payOnOtherPage(ctx context.Context, v *victim) error {
	first := v.OrderID
	err := preparePage(ctx, v)
	if err == nil && v.OrderID == first {
		err = errors.New("the first payment has not ended")
	}
	return errors.Join(err, payOnPage(ctx, v))
}
