package payment

import (
	"net/url"
	"strings"
)

// maxReceipt is the most bytes of a receipt's address.
const maxReceipt = 1000

// ReceiptAt returns the address of a receipt as buyers get it. It is empty unless the address is an https
// address at a provider's domain or below it: what a provider answers must not become a link elsewhere.
func ReceiptAt(address, domain string) string {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxReceipt || u.Scheme != "https" || u.User != nil || u.Host != domain && !strings.HasSuffix(u.Host, "."+domain) {
		return ""
	}
	return address
}
