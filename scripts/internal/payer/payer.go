// Package payer simulates a buyer with a browser on the payment pages of the fakes of Stripe and
// Toss Payments.
package payer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"urr.guru/scripts/internal/fetch"
	"urr.guru/services/payment/fakes/toss"
)

// Choice is what the buyer does on a page.
type Choice string

// The choices.
const (
	Pay     Choice = "pay"
	Decline Choice = "decline" // pay with a card that is declined
	Stay    Choice = "stay"    // pay, and do not go back to the shop
	Back    Choice = "back"    // go back without paying
)

// timeLimit is the time limit of a request. It is long because thousands may run at the same time.
const timeLimit = time.Minute

// Choose makes a choice on a payment's page, and returns the address to which the page sends the
// buyer. This is "" if the buyer stays on the page: after Stay, if nothing can be paid there any
// more, and after Decline at Stripe, where the buyer can try another card.
func Choose(ctx context.Context, page string, choice Choice) (next string, err error) {
	pageURL, err := url.Parse(page)
	if err != nil {
		return "", fmt.Errorf("the address of the page: %w", err)
	}
	if pageURL.Fragment != "" {
		if pageURL, err = openToss(ctx, pageURL); err != nil {
			return "", err
		}
	} else if choice == Stay {
		choice = "close"
	}
	status, location, body, err := do(ctx, http.MethodPost, pageURL.String(), "application/x-www-form-urlencoded", url.Values{"choice": {string(choice)}}.Encode())
	switch {
	case err != nil:
		return "", err
	case status == http.StatusOK || location == pageURL.Path: // the page shows the payment's state
		return "", nil
	case status == http.StatusSeeOther:
		return location, nil
	}
	return "", fmt.Errorf("the page answered %d: %s", status, body)
}

var pageData = regexp.MustCompile(`(?s)<script type="application/json" id="page">(.*?)</script>`)

// openToss does what the gateway's page does by Toss's script. It opens a payment for the order in
// the fragment of the page's address, and returns the address of Toss's page.
func openToss(ctx context.Context, pageURL *url.URL) (*url.URL, error) {
	order, err := url.ParseQuery(pageURL.EscapedFragment())
	if err != nil {
		return nil, fmt.Errorf("the fragment of the page: %w", err)
	}
	status, _, body, err := do(ctx, http.MethodGet, pageURL.String(), "", "")
	if err != nil {
		return nil, err
	}
	found := pageData.FindStringSubmatch(body)
	if found == nil {
		return nil, fmt.Errorf("the page of Toss Payments answered %d: %s", status, body)
	}
	var page struct{ ClientKey, Script, Shop string }
	if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &page); err != nil {
		return nil, fmt.Errorf("the data of the page: %w", err)
	}
	request := toss.Request{ClientKey: page.ClientKey, Method: "CARD", OrderID: order.Get("order"), OrderName: order.Get("name"), WindowTarget: "self"}
	request.Amount.Currency = "KRW"
	if request.Amount.Value, err = strconv.ParseInt(order.Get("amount"), 10, 64); err != nil {
		return nil, fmt.Errorf("the amount in the fragment: %w", err)
	}
	returnURL := page.Shop + "/api/v1/payments/return/toss?" + url.Values{"order": {request.OrderID}, "token": {order.Get("token")}}.Encode()
	request.SuccessURL, request.FailURL = returnURL, returnURL
	sent, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	sdk, err := url.Parse(page.Script)
	if err != nil {
		return nil, fmt.Errorf("the address of the script: %w", err)
	}
	status, _, body, err = do(ctx, http.MethodPost, sdk.Scheme+"://"+sdk.Host+"/sdk/payments", "text/plain", string(sent))
	var opened struct{ URL, Code string }
	if err == nil {
		err = json.Unmarshal([]byte(body), &opened)
	}
	if err != nil || opened.URL == "" {
		return nil, fmt.Errorf("open a payment at Toss Payments: %d %s: %w", status, opened.Code, err)
	}
	return url.Parse(opened.URL)
}

// do sends a request without following redirects.
func do(ctx context.Context, method, address, contentType, form string) (status int, location, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewBufferString(form))
	if err != nil {
		return 0, "", "", err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	a, err := fetch.Send(fetch.NewClient(nil, nil, timeLimit), req)
	if err != nil {
		return 0, "", "", err
	}
	return a.Status, a.Header.Get("Location"), string(a.Body), nil
}
