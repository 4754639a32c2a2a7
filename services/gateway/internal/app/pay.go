package app

import (
	"net/url"
	"strings"

	"urr.guru/pkg/config"
	"urr.guru/services/gateway/internal/web"
)

// PayPage is the page on which the script of Toss Payments runs, on a host name of its own.
type PayPage struct {
	// Host is the name of the page's host, as pay.tickets.example, with its port unless that is the default
	// one; empty: there is no such page. The gateway serves nothing else there, so proxies must keep the
	// host name of a request.
	Host string `env:"PAY_HOST"`
	// ClientKey is the shop's public key at Toss Payments, of the same pair as TOSS_SECRET_KEY of payment;
	// required with PAY_HOST.
	ClientKey string `env:"TOSS_CLIENT_KEY"`
	// ScriptURL is the address of the vendor's script, whose site is the only other one that the page may
	// call.
	ScriptURL string `env:"TOSS_SCRIPT_URL, default=https://js.tosspayments.com/v2/standard"`
}

func (p *PayPage) page(shop string) web.PayConfig {
	if p.Host == "" {
		return web.PayConfig{}
	}
	return web.PayConfig{ClientKey: p.ClientKey, Script: p.ScriptURL, Shop: strings.TrimSuffix(shop, "/")}
}

// validate checks the settings. shop is the gateway's address in browsers; secure: they use https.
func (p *PayPage) validate(shop string, secure bool) error {
	if p.Host == "" {
		return nil
	}
	address, err := url.Parse(shop)
	script, scriptErr := url.Parse(p.ScriptURL)
	switch {
	case strings.ContainsAny(p.Host, "/ @?#"):
		return config.Invalid("PAY_HOST", p.Host, "must be a host name, as pay.tickets.example")
	case err != nil || address.Host == "":
		return config.Missing("PUBLIC_URL", "must be the gateway's address in browsers, as https://tickets.example, with PAY_HOST")
	case strings.EqualFold(p.Host, address.Host):
		return config.Invalid("PAY_HOST", p.Host, "must be another host than that of PUBLIC_URL: somebody else's script runs there")
	case p.ClientKey == "":
		return config.Missing("TOSS_CLIENT_KEY", "must be the public key at Toss Payments, with PAY_HOST")
	case scriptErr != nil || script.Host == "" || script.Scheme != "https" && (secure || script.Scheme != "http"):
		return config.Invalid("TOSS_SCRIPT_URL", p.ScriptURL, "must be a URL as https://js.tosspayments.com/v2/standard; http only without SECURE_COOKIES")
	}
	return nil
}
