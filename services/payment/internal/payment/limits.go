package payment

import (
	"cmp"
	"crypto/rand"
	"strconv"
)

// Limits are the amounts of a currency that a provider takes, in the currency's minor unit.
type Limits struct {
	Smallest int64
	// Largest is 0 if the provider states none.
	Largest int64
	// Step is at least 1: amounts are multiples of it.
	Step int64
}

// take reports whether an amount is within the limits.
func (l Limits) take(amount int64) bool {
	return amount >= l.Smallest && (l.Largest == 0 || amount <= l.Largest) && amount%max(l.Step, 1) == 0
}

// takes returns ErrAmountNotTaken if a provider does not take an amount of a currency. If it takes
// the currency, the error has its limits.
func (c Capabilities) takes(amount int64, currency string) error {
	l, ok := c.Currencies[currency]
	switch {
	case c.Currencies == nil || ok && l.take(amount):
		return nil
	case !ok:
		return ErrAmountNotTaken.With("currency", currency)
	}
	err := ErrAmountNotTaken.With("currency", currency).With("smallest", strconv.FormatInt(l.Smallest, 10)).With("step", strconv.FormatInt(l.Step, 10))
	if l.Largest > 0 {
		err = err.With("largest", strconv.FormatInt(l.Largest, 10))
	}
	return err
}

// ProviderLimits is what a configured provider takes.
type ProviderLimits struct {
	Name string
	// Currencies are those of Capabilities.
	Currencies map[string]Limits
}

// Limits returns what the providers take, the default one first.
func (p Providers) Limits() []ProviderLimits {
	var list []ProviderLimits
	for _, name := range p.Names() {
		list = append(list, ProviderLimits{Name: name, Currencies: p.ByName[name].Capabilities().Currencies})
	}
	return list
}

// taking returns the limits of the providers that take an amount of a currency, the default one
// first. An amount of 0 is taken by each provider of the currency.
func (p Providers) taking(amount int64, currency string) (list []ProviderLimits) {
	for _, l := range p.Limits() {
		limits, ok := l.Currencies[currency]
		if l.Currencies == nil || ok && (amount == 0 || limits.take(amount)) {
			list = append(list, l)
		}
	}
	return list
}

// choose returns the provider of a new payment, and the token for its page if it has one. name is
// what the client asked for; if it is empty, the first provider that takes the amount is chosen.
func (p Providers) choose(name string, payable Payable) (provider, token string, err error) {
	if payable.Amount == 0 {
		return NoProvider, "", nil
	}
	if taking := p.taking(payable.Amount, payable.Currency); name == "" && len(taking) > 0 {
		name = taking[0].Name
	}
	name = cmp.Or(name, p.Default)
	found, ok := p.Of(name)
	if !ok || name == NoProvider {
		return "", "", ErrProviderUnknown
	}
	caps := found.Capabilities()
	if err := caps.takes(payable.Amount, payable.Currency); err != nil {
		return "", "", err
	}
	if caps.PageTime > 0 {
		token = rand.Text()
	}
	return name, token, nil
}
