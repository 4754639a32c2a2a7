package stripe

import (
	"fmt"
	"strings"
	"sync"

	"urr.guru/pkg/currency"
	"urr.guru/services/payment/internal/payment"
)

// The currencies that Stripe charges, by the digits of its amounts, which differ from those of ISO
// 4217 (docs.stripe.com/currencies). ISK and UGX are sent with two digits that are always 00, and
// MGA without digits. HUF and TWD have no digits in payouts only. An amount with three digits must
// end in 0, also in refunds.
const (
	noDigits  = "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF"
	twoDigits = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF CNY COP CRC CVE CZK DKK DOP DZD EGP " +
		"ETB EUR FJD FKP GBP GEL GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK JMD KES KGS KHR KYD KZT LAK LBP LKR LRD LSL MAD MDL MKD MMK MNT " +
		"MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SEK SGD SHP SLE SOS SRD SZL THB " +
		"TJS TOP TRY TTD TWD TZS UAH UGX USD UYU UZS WST XCD XCG YER ZAR ZMW"
	threeDigits = "BHD JOD KWD OMR TND"
)

// smallest has the least amounts in Stripe's unit, for accounts in the same currency. Others are
// converted to the account's currency, so that only Stripe knows the least amount.
var smallest = map[string]int64{ //nolint:gochecknoglobals // a constant
	"USD": 50, "AED": 200, "ARS": 50, "AUD": 50, "BRL": 50, "CAD": 50, "CHF": 50, "COP": 50, "CZK": 1500, "DKK": 250, "EUR": 50, "GBP": 30,
	"HKD": 400, "HUF": 17500, "IDR": 50, "ILS": 50, "INR": 50, "JPY": 50, "KRW": 50, "MXN": 1000, "MYR": 200, "NOK": 300, "NZD": 50, "PHP": 50,
	"PLN": 200, "RON": 200, "RUB": 50, "SEK": 300, "SGD": 50, "THB": 1000, "ZAR": 50,
}

// largest is the largest amount of a payment by card in Stripe's unit: twelve digits.
const largest = 999_999_999_999

// ratio is how amounts of a currency are converted: ours in this service's unit are theirs in
// Stripe's. Amounts are multiples of step, in this service's unit.
type ratio struct{ ours, theirs, step int64 }

var ratios = sync.OnceValue(func() map[string]ratio { //nolint:gochecknoglobals // a constant
	all := map[string]ratio{}
	for digits, codes := range map[int]string{0: noDigits, 2: twoDigits, 3: threeDigits} {
		for code := range strings.FieldsSeq(codes) {
			r := ratio{ours: 1, theirs: 1}
			for n := currency.Digits(code); n > digits; n-- {
				r.ours *= 10
			}
			for n := currency.Digits(code); n < digits; n++ {
				r.theirs *= 10
			}
			if r.step = r.ours; digits == 3 {
				r.step = 10
			}
			all[code] = r
		}
	}
	return all
})

var limits = sync.OnceValue(func() map[string]payment.Limits { //nolint:gochecknoglobals // a constant
	all := map[string]payment.Limits{}
	for code, r := range ratios() {
		least := max((smallest[code]+r.theirs-1)/r.theirs*r.ours, r.step)
		all[code] = payment.Limits{Smallest: least, Largest: largest / r.theirs * r.ours, Step: r.step}
	}
	return all
})

// toStripe converts an amount to Stripe's unit. It fails if Stripe cannot express it.
func toStripe(amount int64, code string) (int64, error) {
	r, ok := ratios()[code]
	if !ok || amount%r.step != 0 {
		return 0, fmt.Errorf("stripe takes no amount of %d %s", amount, code)
	}
	return amount / r.ours * r.theirs, nil
}

// fromStripe converts an amount from Stripe's unit. It fails if ours cannot express it. An amount in
// a currency that is not taken belongs to another shop of the account, and stays as it is.
func fromStripe(amount int64, code string) (int64, error) {
	r, ok := ratios()[code]
	if !ok {
		return amount, nil
	}
	if amount%r.theirs != 0 {
		return 0, fmt.Errorf("stripe has an amount of %d %s, which is no whole number of ours", amount, code)
	}
	return amount / r.theirs * r.ours, nil
}
