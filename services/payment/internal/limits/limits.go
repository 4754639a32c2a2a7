// Package limits converts what the providers take to the message that two adapters send.
package limits

import (
	"maps"
	"slices"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	"urr.guru/services/payment/internal/payment"
)

// ToProto converts limits, each with its currencies in alphabetical order.
func ToProto(list []payment.ProviderLimits) []*commonv1.ProviderLimits {
	out := make([]*commonv1.ProviderLimits, len(list))
	for i, l := range list {
		out[i] = &commonv1.ProviderLimits{Provider: l.Name}
		for _, code := range slices.Sorted(maps.Keys(l.Currencies)) {
			c := l.Currencies[code]
			out[i].Currencies = append(out[i].Currencies, &commonv1.CurrencyLimits{
				Currency: code, Smallest: c.Smallest, Largest: c.Largest, Step: c.Step,
			})
		}
	}
	return out
}
