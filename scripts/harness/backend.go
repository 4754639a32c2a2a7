package harness

import (
	"slices"
	"syscall"

	"urr.guru/scripts/awsproxy"
)

// Backends returns the names of the backends that Platform.Backend accepts.
func Backends() []string { return []string{"redis", "postgres", "kafka", "dynamodb", "sqs"} }

// Backend is one of the platform's backends. After the test, it is running again with its data.
type Backend struct {
	p    *Platform
	name string
}

// Backend returns a backend that the test may kill or pause; it needs Options.OwnBackends.
func (p *Platform) Backend(name string) Backend {
	p.tb.Helper()
	if !slices.Contains(Backends(), name) {
		p.tb.Fatalf("harness: no backend %q: %v", name, Backends())
	}
	if !p.opts.OwnBackends {
		p.tb.Fatalf("harness: %s is everybody's here: Options.OwnBackends starts one for the run", name)
	}
	return Backend{p: p, name: name}
}

// Kill kills the server by SIGKILL: data that it has not written is lost.
func (b Backend) Kill() { b.signal(syscall.SIGKILL) }

// Pause suspends the server: connections stay open, and it does not respond.
func (b Backend) Pause() { b.signal(syscall.SIGSTOP) }

func (b Backend) Resume() { b.signal(syscall.SIGCONT) }

// Start restarts the server after Kill and returns when it is ready.
func (b Backend) Start() {
	b.p.tb.Helper()
	if err := b.p.workspace.backends.Start(b.p.tb.Context()); err != nil {
		b.p.tb.Fatalf("harness: start %s: %v", b.name, err)
	}
}

func (b Backend) signal(sig syscall.Signal) {
	b.p.tb.Helper()
	if err := b.p.workspace.backends.Signal(b.name, sig); err != nil {
		b.p.tb.Fatalf("harness: %v", err)
	}
}

// DynamoDB returns the proxy that can inject faults before DynamoDB; it needs Options.AWS.
func (p *Platform) DynamoDB() *awsproxy.Proxy {
	p.tb.Helper()
	return p.requireProxy(p.dynamoDB)
}

// SQS returns the proxy that can inject faults before SQS; it needs Options.AWS.
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

// startAWSProxies starts the proxies in front of DynamoDB and SQS.
func (p *Platform) startAWSProxies() (err error) {
	w := p.workspace.wiring()
	if p.dynamoDB, err = awsproxy.New(w.DynamoDBEndpoint); err != nil {
		return err
	}
	p.sqs, err = awsproxy.New(w.SQSEndpoint)
	return err
}

func (p *Platform) closeAWSProxies() {
	for _, proxy := range []*awsproxy.Proxy{p.dynamoDB, p.sqs} {
		if proxy != nil {
			proxy.Close()
		}
	}
}

// awsEnv returns environment variables with the proxies' addresses for a replica. The addresses
// contain the replica's name, which tells the proxies who calls.
func (p *Platform) awsEnv(replica string) []string {
	return []string{"DYNAMODB_ENDPOINT=" + p.dynamoDB.URL(replica), "SQS_ENDPOINT=" + p.sqs.URL(replica)}
}
