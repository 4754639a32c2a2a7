package payment_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
)

func TestReceiptAt(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://vendor.test/r?id=1", "https://dashboard.vendor.test/r?id=1&ref=PX"} {
		require.Equal(t, address, payment.ReceiptAt(address, "vendor.test"))
	}
	for _, address := range []string{
		"", "http://vendor.test/r", "//vendor.test/r", "/r", "javascript:alert(1)", "https://vendor.test.evil.test/r", "https://evilvendor.test/r",
		"https://vendor.test@evil.test/r", "https://user@vendor.test/r", "https://vendor.test:444/r", "https://vendor.test\n.evil.test/r",
		"https://vendor.test/" + strings.Repeat("r", 1000),
	} {
		require.Empty(t, payment.ReceiptAt(address, "vendor.test"), address)
	}
}
