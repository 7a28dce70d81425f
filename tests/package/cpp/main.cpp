// A foreign C++ program: the spectral lmo of a multiple of the identity is minus the identity (the factor
// sqrt(d_out/d_in) is 1), and an exception-free failure carries a sentence.
#include <scion_advanced.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

int main()
{
    constexpr int64_t n = 8;
    std::vector<float> s(n * n, 0.0f), out(n * n, 0.0f);
    for (int64_t i = 0; i < n; i++)
        s[static_cast<std::size_t>(i * n + i)] = 0.5f;

    scion_param p;
    scion_param_init(&p);
    p.ndim = 2;
    p.shape[0] = p.shape[1] = n;
    p.norm = SCION_NORM_SPECTRAL;
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    o.polar = SCION_POLAR_CONVERGED;
    scion_error err;
    if (scion_lmo(&p, &o, s.data(), out.data(), &err)) {
        std::cout << err.message << '\n';
        return 1;
    }
    for (int64_t i = 0; i < n * n; i++) {
        // "As exact as float32": a few units in the last place of 1 after a dozen steps.
        const float expected = i % (n + 1) == 0 ? -1.0f : 0.0f;
        if (std::fabs(out[static_cast<std::size_t>(i)] - expected) > 1e-5f) {
            std::cout << "entry " << i << " is " << out[static_cast<std::size_t>(i)] << '\n';
            return 1;
        }
    }

    p.ndim = 7;
    scion_optimizer *raw = nullptr;
    if (scion_optimizer_create(&raw, &o, &p, 1, &err) != SCION_EINVAL || err.message[0] == '\0') {
        std::cout << "seven dimensions were not refused\n";
        return 1;
    }
    std::unique_ptr<scion_optimizer, decltype(&scion_optimizer_free)> opt(raw, scion_optimizer_free);
    return opt ? 1 : 0;
}
