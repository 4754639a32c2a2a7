package event

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"urr.guru/pkg/errs"
)

// Taker is a payment provider with the amounts that it takes, as the payment service says them.
type Taker struct {
	Provider string
	// Currencies has the limits by currency; none: any amount of every currency.
	Currencies map[string]AmountLimits `json:",omitempty"`
}

// AmountLimits are the amounts of a currency that a provider takes, in the currency's minor unit.
// Largest is 0 if the provider states none. Amounts are multiples of Step, which is at least 1.
type AmountLimits struct{ Smallest, Largest, Step int64 }

// Takers are the configured payment providers; none: the payment service has not said yet which.
type Takers []Taker

// take reports whether the taker takes price and fee together, and can give back each of them.
func (t Taker) take(currency string, price, fee int64) bool {
	l, ok := t.Currencies[currency]
	if !ok {
		return len(t.Currencies) == 0
	}
	return price+fee >= l.Smallest && (l.Largest == 0 || price+fee <= l.Largest) && price%l.Step == 0 && fee%l.Step == 0
}

// Take reports whether any provider takes an amount, or it is not known which there are.
func (t Takers) Take(currency string, amount int64) bool {
	return len(t) == 0 || slices.ContainsFunc(t, func(x Taker) bool { return x.take(currency, amount, 0) })
}

// check returns what no provider takes of an event's currency and prices.
func (t Takers) check(s *Spec) (bad []errs.Field) {
	if len(t) == 0 || !slices.ContainsFunc(s.Sections, func(x Section) bool { return x.Price+x.Fee > 0 }) {
		return nil
	}
	takers := slices.DeleteFunc(slices.Clone(t), func(x Taker) bool {
		_, ok := x.Currencies[s.Currency]
		return !ok && len(x.Currencies) > 0
	})
	if len(takers) == 0 {
		return []errs.Field{{Path: "currency", Message: "must be one that a payment provider takes: " + t.currencies()}}
	}
	for i, x := range s.Sections {
		if x.Price+x.Fee == 0 || slices.ContainsFunc(takers, func(t Taker) bool { return t.take(s.Currency, x.Price, x.Fee) }) {
			continue
		}
		bad = append(bad, errs.Field{Path: fmt.Sprintf("sections[%d].price", i), Message: "must be, with the fee, " + takers.amounts(s.Currency)})
	}
	return bad
}

// currencies lists the currencies of each provider, for people.
func (t Takers) currencies() string {
	list := make([]string, len(t))
	for i, x := range t {
		list[i] = strings.Join(slices.Sorted(maps.Keys(x.Currencies)), ", ") + " (" + x.Provider + ")"
	}
	return strings.Join(list, "; ")
}

// amounts lists the amounts of a currency that each provider takes, for people.
func (t Takers) amounts(currency string) string {
	list := make([]string, len(t))
	for i, x := range t {
		l := x.Currencies[currency]
		list[i] = fmt.Sprintf("at least %d", l.Smallest)
		if l.Largest > 0 {
			list[i] += fmt.Sprintf(", at most %d", l.Largest)
		}
		if l.Step > 1 {
			list[i] += fmt.Sprintf(", both in multiples of %d", l.Step)
		}
		list[i] += " (" + x.Provider + ")"
	}
	return strings.Join(list, "; or ")
}
