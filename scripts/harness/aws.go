package harness

import "urr.guru/scripts/awsproxy"

// DynamoDB returns the proxy between the services and DynamoDB; it needs Options.AWS.
func (p *Platform) DynamoDB() *awsproxy.Proxy {
	p.tb.Helper()
	return p.requireProxy(p.dynamoDB)
}

// SQS returns the proxy between the services and SQS; it needs Options.AWS.
func (p *Platform) SQS() *awsproxy.Proxy {
	p.tb.Helper()
	return p.requireProxy(p.sqs)
}

func (p *Platform) requireProxy(proxy *awsproxy.Proxy) *awsproxy.Proxy {
	p.tb.Helper()
	if proxy == nil {
		p.tb.Fatalf("harness: DynamoDB and SQS are called directly here: Options.AWS puts proxies between")
	}
	return proxy
}

// serveAWS starts the proxies.
func (p *Platform) serveAWS() (err error) {
	w := p.workspace.wiring()
	if p.dynamoDB, err = awsproxy.New(w.DynamoDBEndpoint); err != nil {
		return err
	}
	p.sqs, err = awsproxy.New(w.SQSEndpoint)
	return err
}

func (p *Platform) closeAWS() {
	for _, proxy := range []*awsproxy.Proxy{p.dynamoDB, p.sqs} {
		if proxy != nil {
			proxy.Close()
		}
	}
}

// awsEnv is the environment of a replica, whose name is part of the proxies' addresses: so they know
// who calls.
func (p *Platform) awsEnv(replica string) []string {
	return []string{"DYNAMODB_ENDPOINT=" + p.dynamoDB.URL(replica), "SQS_ENDPOINT=" + p.sqs.URL(replica)}
}
