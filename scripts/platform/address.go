package platform

import "net/netip"

// VisitorAddress is the address of the nth simulated visitor, for the header X-Forwarded-For.
// Gateways of development runs and tests trust this header from this machine.
func VisitorAddress(n uint32) string {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String()
}
